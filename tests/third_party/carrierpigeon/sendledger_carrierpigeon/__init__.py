"""Pages by carrier pigeon: a line of text to a ring number, over a loft that speaks a protocol of its own.

The loft says ``100 READY`` to whoever connects. Then, as often as one likes::

    RING 5550100 tag    200 GO            or 4yz not now, 5yz never
    HOME address        200 GO            before the note, if what becomes of it is to be told
    NOTE text           201 reference     or 4yz not now, 5yz never
    FIND tag            203 reference...  every note of that tag; 203 alone where there is none
    ASK reference       202 reference word, or 520 no such note

A note is one line of UTF-8 with at most 500 octets, and a tag one word of the caller's own. 510 is a ring
that nobody wears, 511 a note that no pigeon carries, 530 a loft that does not know us.

To the address it posts ``{"loft": name, "note": reference, "word": word}`` as JSON, once for each new
word, with the header ``Loft-Signature``: the hexadecimal HMAC-SHA256, under the secret that both sides
know, of address, line end and body. A pigeon is ``flying``, then ``home``, or lost to a ``hawk``.
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
