"""Email through an SMTP relay: literal evidence of each handoff, never a verdict.

The module is the plugin: ``settings_model`` types a channel's settings, ``sendledger_channel`` builds it.
"""

from __future__ import annotations

import ssl

from sendledger.plugin import Channel, hookimpl
from sendledger_smtp.channel import SmtpChannel
from sendledger_smtp.settings import Relay, SmtpSettings, Timeouts, Tls

__all__ = [
    "Relay",
    "SmtpChannel",
    "SmtpSettings",
    "Timeouts",
    "Tls",
    "sendledger_channel",
    "settings_model",
]

settings_model = SmtpSettings


@hookimpl
def sendledger_channel(name: str, settings: SmtpSettings) -> Channel:
    """Build the channel without touching the network.

    Raises ``ValueError`` when the certificates of ``ca_file`` cannot be read.
    """
    contexts = [
        _tls_context(relay, f"channels.{name}.settings{place}")
        for relay, place in zip(settings.relays, _places(settings), strict=True)
    ]
    return SmtpChannel(settings, contexts, name=name)


def _places(settings: SmtpSettings) -> list[str]:
    return ["", *(f".fallbacks.{number}" for number in range(len(settings.fallbacks)))]


def _tls_context(relay: Relay, path: str) -> ssl.SSLContext | None:
    if relay.tls is Tls.NONE:
        return None
    try:
        return ssl.create_default_context(cafile=relay.ca_file)
    except (OSError, ValueError):
        raise ValueError(
            f"{path}.ca_file: {relay.ca_file} holds no readable certificates; "
            "name a PEM file, or leave it out to use the system's"
        ) from None
