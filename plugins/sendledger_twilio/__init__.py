"""SMS through Twilio: literal evidence of each handoff, signed receipts, and look-ups.

The module is the plugin: ``settings_model`` types a channel's settings, ``sendledger_channel`` builds it.
"""

from __future__ import annotations

from sendledger.plugin import Channel, hookimpl
from sendledger_twilio.channel import TwilioChannel
from sendledger_twilio.settings import Timeouts, TwilioSettings

__all__ = ["Timeouts", "TwilioChannel", "TwilioSettings", "sendledger_channel", "settings_model"]

settings_model = TwilioSettings


@hookimpl
def sendledger_channel(settings: TwilioSettings) -> Channel:
    """Build the channel without touching the network."""
    return TwilioChannel(settings)
