"""One text part on the wire: CRLF line ends, ASCII only, short lines."""

from __future__ import annotations

import re
from binascii import b2a_qp
from collections.abc import Sequence
from typing import NamedTuple

LINE_MAX_OCTETS = 998
"""RFC 5322 section 2.1.1, without the CRLF."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_NOT_PLAIN = re.compile(rb"[^\t\r\n\x20-\x7e]")
_BOUNDARY_START = b"--=_"

_CUT = "\0\n"
"""A line that stands for lines which no value changes."""
_CUT_OCTETS = {True: b"\0\r\n", False: b"=00\r\n"}


class Body(NamedTuple):
    """A part's own headers, the empty line included, and its octets, ending in CRLF."""

    headers: bytes
    octets: bytes


class SplicedBody:
    """A text part of which only the lines that hold values are encoded for each recipient.

    Both encodings begin anew with every line, so that the lines between can be encoded beforehand and
    the octets are those of :func:`write_body`, whatever the values are.
    """

    def __init__(self, subtype: str, static: Sequence[str]) -> None:
        """Take the texts around the values, one more than there are values."""
        self._subtype = subtype
        self._static = tuple(static)
        self._lines, blocks = _cut(self._static)
        self._cuts = len(blocks)
        octets = [_with_line_ends(block.encode()) for block in blocks]
        self._all_plain = all(map(_plain, octets))
        self._blocks = {True: octets, False: [b2a_qp(block, istext=True) for block in octets]}
        self._headers = {plain: _headers(subtype, plain=plain) for plain in (True, False)}

    def write(self, spliced: Sequence[str]) -> Body:
        """Return the body with these values. Raises ``UnicodeEncodeError``."""
        text = _joined(self._lines, spliced)
        if "\r" in text or text.count("\0") != self._cuts:
            return write_body(self._subtype, _joined(self._static, spliced).encode())
        if not text.endswith("\n"):
            text += "\n"
        octets = text.replace("\n", "\r\n").encode()
        plain = self._all_plain and _plain(octets.replace(_CUT_OCTETS[True], b""))
        if not plain:
            octets = b2a_qp(octets, istext=True)
        pieces = [b""] * (2 * self._cuts + 1)
        pieces[::2] = octets.split(_CUT_OCTETS[plain])
        pieces[1::2] = self._blocks[plain]
        return Body(self._headers[plain], b"".join(pieces))


def write_body(subtype: str, text: bytes) -> Body:
    """Return UTF-8 *text* as ``text/subtype``: as it is where that is safe, else quoted-printable."""
    octets = _with_line_ends(text)
    plain = _plain(octets)
    if not plain:
        # b2a_qp takes its own line ends from the first it finds: there is one by now, and it is CRLF.
        octets = b2a_qp(octets, istext=True)
    return Body(_headers(subtype, plain=plain), octets)


def _headers(subtype: str, *, plain: bool) -> bytes:
    return b"Content-Type: text/%b; charset=utf-8\r\nContent-Transfer-Encoding: %b\r\n\r\n" % (
        subtype.encode("ascii"),
        b"7bit" if plain else b"quoted-printable",
    )


def _cut(static: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return *static* with a cut for each run of whole lines, and those runs."""
    lines: list[str] = []
    blocks: list[str] = []
    for place, text in enumerate(static):
        # The line that the value before has begun ends with the first line end.
        start = text.find("\n") + 1 if place else 0
        end = text.rfind("\n") + 1
        if start < end and "\r" not in text and "\0" not in text:
            blocks.append(text[start:end])
            text = text[:start] + _CUT + text[end:]  # noqa: PLW2901 - the same text, shorter
        lines.append(text)
    return lines, blocks


def _joined(static: Sequence[str], spliced: Sequence[str]) -> str:
    texts = [""] * (len(static) + len(spliced))
    texts[::2] = static
    texts[1::2] = spliced
    return "".join(texts)


def _with_line_ends(text: bytes) -> bytes:
    octets = _LINE_END.sub(b"\r\n", text) if b"\r" in text else text.replace(b"\n", b"\r\n")
    return octets if octets.endswith(b"\r\n") else octets + b"\r\n"


def _plain(octets: bytes) -> bool:
    return (
        _NOT_PLAIN.search(octets) is None
        and _BOUNDARY_START not in octets
        and (
            len(octets) <= LINE_MAX_OCTETS
            or max(map(len, octets.split(b"\r\n"))) <= LINE_MAX_OCTETS
        )
    )
