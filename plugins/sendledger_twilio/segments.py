"""What a text is charged as: its encoding in the air, and in how many segments it goes.

GSM 03.38 (3GPP TS 23.038) has 7-bit characters, and a second table whose characters take two. A text with
any other character goes as UCS-2, 16-bit units of UTF-16. One segment holds 160 septets or 70 units; of
several, each gives 7 or 3 to the header that joins them (3GPP TS 23.040), and none holds half a character.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
EXTENDED = frozenset("^{}\\[~]|€\f")
GSM = BASIC | EXTENDED

_BMP_END = "\uffff"


class Encoding(StrEnum):
    """How a text goes through the air."""

    GSM_7 = "GSM-7"
    UCS_2 = "UCS-2"


_SIZES = {Encoding.GSM_7: (160, 153), Encoding.UCS_2: (70, 67)}
"""How many units one segment holds: alone, and as one of several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What a text is charged as; ``units`` are septets or 16-bit units."""

    encoding: Encoding
    units: int
    segments: int


def measure(text: str) -> Size:
    """Return the encoding, the units and the segments of *text*; no text is no segment."""
    encoding = Encoding.GSM_7 if GSM.issuperset(text) else Encoding.UCS_2
    alone, joined = _SIZES[encoding]
    units = _units(text, encoding)
    if units <= alone:
        return Size(encoding=encoding, units=units, segments=min(units, 1))
    widths = (_width(character, encoding) for character in text)
    return Size(encoding=encoding, units=units, segments=_fill(widths, joined))


def foreign(text: str) -> tuple[str, ...]:
    """Return the characters of *text* that make it go as UCS-2, each once, in their order."""
    return tuple(dict.fromkeys(character for character in text if character not in GSM))


def _units(text: str, encoding: Encoding) -> int:
    # Every message is measured twice, and most go as one segment: no list of each character's width.
    if encoding is Encoding.GSM_7:
        return len(text) + sum(map(text.count, EXTENDED))
    return len(text) + sum(character > _BMP_END for character in text)


def _width(character: str, encoding: Encoding) -> int:
    if encoding is Encoding.GSM_7:
        return 2 if character in EXTENDED else 1
    return 2 if character > _BMP_END else 1


def _fill(widths: Iterable[int], room: int) -> int:
    segments, left = 1, room
    for width in widths:
        if width > left:
            segments, left = segments + 1, room
        left -= width
    return segments
