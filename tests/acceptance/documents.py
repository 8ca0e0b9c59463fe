"""Settings, policy and batch of the installation that acceptance tests meet, as the files say them."""

from __future__ import annotations

from typing import Any

SCALE = 60
"""Every duration below is divided by it."""


def settings_of(port: int, dsn: str = "dsn") -> dict[str, Any]:
    """Return settings with one email channel whose relay listens on *port* of this machine."""
    return {
        "database": {"dsn": {"$file": dsn}},
        "state_dir": "state",
        "policy": "policy.yaml",
        "channels": {
            "email": {
                "plugin": "smtp",
                "slots": "4",
                "settings": {
                    "host": "127.0.0.1",
                    "port": str(port),
                    "tls": "none",
                    "sender": "reports@school.example",
                    "return_path_domain": "bounces.school.example",
                },
            }
        },
        "worker": {
            "lease": "3m",
            "sweep": "15s",
            "poll": "6s",
            "stop_grace": "5m",
        },
    }


def policy_of() -> dict[str, Any]:
    """Return a policy in a hurry, without chance."""
    return {
        "scale": str(SCALE),
        "retry": {"delays": ["30s", "30s", "30s"], "jitter": "0"},
        "unknown": {"wait": "1h"},
        "back_off": {"intents": "3", "probe": "30s", "probe_max": "1m"},
    }


def batch_of() -> dict[str, Any]:
    """Return a batch whose two columns are written into subject and text."""
    return {
        "report": "spring",
        "content_revision": "r1",
        "channel": "email",
        "purpose": "reports",
        "authorization": {"id": "AUTH-1", "by": "head", "at": "2026-03-02T09:00:00+00:00"},
        "recipients": {"id": "id", "destination": "email"},
        "variables": {"name": "name"},
        "content": {"subject": "Report for {{name}}", "text": "Dear {{name}}, here it is."},
    }
