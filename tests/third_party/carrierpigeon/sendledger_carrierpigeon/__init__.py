"""Pages by carrier pigeon: a line of text to a ring number, over a loft that speaks a protocol of its own.

The loft says ``100 READY`` to whoever connects. Then, as often as one likes::

    RING 5550100        200 GO            or 4yz not now, 5yz never
    NOTE text           201 reference     or 4yz not now, 5yz never

A note is one line of UTF-8 with at most 500 octets. 510 is a ring that nobody wears, 511 a note that no
pigeon carries, 530 a loft that does not know us.
"""

from __future__ import annotations

from sendledger.plugin import hookimpl
from sendledger_carrierpigeon.channel import PigeonChannel
from sendledger_carrierpigeon.settings import PigeonSettings

settings_model = PigeonSettings

__all__ = ["PigeonChannel", "PigeonSettings", "sendledger_channel", "settings_model"]


@hookimpl
def sendledger_channel(settings: PigeonSettings) -> PigeonChannel:
    """Build the channel of one loft."""
    return PigeonChannel(settings)
