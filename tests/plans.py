"""The plans that a statement really ran with, also inside the functions that it called; and such calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg

from sendledger.store.attempts import DISPATCH_LOCK

Node = dict[str, Any]
IDS = list(range(1, 101))
"""The intents that :func:`handing_over` opens attempts of and records."""


def handing_over(channel: str, claim_token: UUID) -> dict[str, dict[str, Any]]:
    """Return what a worker tells claim, opening and acceptance; rows are to be claimed by *claim_token*."""
    return {
        "claim_deliveries": {
            "channel": channel,
            "lane": 1,
            "now": None,
            "wake_from": None,
            "intent_from": None,
            "probing": False,
            "claim_max": 100,
            "claim_token": claim_token,
            "lease": timedelta(seconds=30),
        },
        "open_attempts": {
            "dispatch_lock": DISPATCH_LOCK,
            "intent_ids": IDS,
            "seqs": [0] * 100,
            "decision_seqs": [None] * 100,
            "claim_tokens": [claim_token] * 100,
            "go_until": ["2100-01-01T00:00:00Z"] * 100,
            "seals": [bytes(8)] * 100,
            "units": [None] * 100,
            "handoff_max": timedelta(minutes=5),
            "unknown_wait": timedelta(hours=1),
            "evidence_wait": timedelta(days=5),
            "window": timedelta(days=5),
            "margin": timedelta(seconds=10),
            "token_key_id": 1,
            "policy_revision": "test",
        },
        "record_accepted": {
            "asked": [],
            "intent_ids": IDS,
            "numbers": [1] * 100,
            "seqs": [2] * 100,
            "rules": ["default.2yz"] * 100,
            "stages": ["dot"] * 100,
            "reply_codes": [250] * 100,
            "enhanced_codes": [None] * 100,
            "provider_references": [None] * 100,
            "literals": [b"250"] * 100,
            "seals": [bytes(8)] * 100,
            "policy_revision": "test",
        },
    }


def nodes_of(
    connection: psycopg.Connection, query: bytes, parameters: Mapping[str, Any]
) -> list[Node]:
    """Run *query* without a trace, and return every node of every plan in it. Needs a superuser."""
    told: list[str] = []
    connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    with connection.transaction(force_rollback=True):
        connection.execute("LOAD 'auto_explain'")
        for setting, value in (
            ("client_min_messages", "log"),
            ("auto_explain.log_min_duration", "0"),
            ("auto_explain.log_nested_statements", "on"),
            ("auto_explain.log_format", "json"),
        ):
            connection.execute("SELECT set_config(%s, %s, true)", [setting, value])
        told.clear()
        connection.execute(query, parameters)
    plans = [message.partition("plan:\n")[2] for message in told if "plan:\n" in message]
    return [node for plan in plans for node in _nodes(json.loads(plan)["Plan"])]


def scans(nodes: list[Node], table: str) -> list[Node]:
    """Return the nodes that read *table* from end to end."""
    return [
        node
        for node in nodes
        if node["Node Type"] == "Seq Scan" and node.get("Relation Name") == table
    ]


def _nodes(plan: Node) -> Iterator[Node]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)
