"""Email through an SMTP relay: literal evidence of each handoff, never a verdict.

The module is the plugin: ``settings_model`` types a channel's settings, ``sendledger_channel`` builds it.
"""

from __future__ import annotations

import ssl

from sendledger.plugin import Channel, hookimpl
from sendledger_smtp.channel import SmtpChannel
from sendledger_smtp.settings import SmtpSettings, Timeouts, Tls

__all__ = ["SmtpChannel", "SmtpSettings", "Timeouts", "Tls", "sendledger_channel", "settings_model"]

settings_model = SmtpSettings


@hookimpl
def sendledger_channel(name: str, settings: SmtpSettings) -> Channel:
    """Build the channel without touching the network.

    Raises ``ValueError`` when the certificates of ``ca_file`` cannot be read.
    """
    context = None if settings.tls is Tls.NONE else _tls_context(name, settings)
    return SmtpChannel(settings, context, name=name)


def _tls_context(name: str, settings: SmtpSettings) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ValueError):
        raise ValueError(
            f"channels.{name}.settings.ca_file: {settings.ca_file} holds no readable certificates; "
            "name a PEM file, or leave it out to use the system's"
        ) from None
