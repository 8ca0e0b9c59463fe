"""One text part on the wire: CRLF line ends, ASCII only, short lines."""

from __future__ import annotations

import re
from binascii import b2a_qp
from typing import NamedTuple

LINE_MAX_OCTETS = 998
"""RFC 5322 section 2.1.1, without the CRLF."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_NOT_PLAIN = re.compile(rb"[^\t\r\n\x20-\x7e]")
_BOUNDARY_START = b"--=_"


class Body(NamedTuple):
    """A part's own headers, the empty line included, and its octets, ending in CRLF."""

    headers: bytes
    octets: bytes


def write_body(subtype: str, text: bytes) -> Body:
    """Return UTF-8 *text* as ``text/subtype``: as it is where that is safe, else quoted-printable."""
    octets = _with_line_ends(text)
    encoding = b"7bit"
    if not _plain(octets):
        # b2a_qp takes its own line ends from the first it finds: there is one by now, and it is CRLF.
        octets = b2a_qp(octets, istext=True)
        encoding = b"quoted-printable"
    headers = b"Content-Type: text/%b; charset=utf-8\r\nContent-Transfer-Encoding: %b\r\n\r\n" % (
        subtype.encode("ascii"),
        encoding,
    )
    return Body(headers, octets)


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
