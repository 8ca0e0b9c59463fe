"""Files in a message: one multipart/mixed around what is read, base64 for what goes along (RFC 2045)."""

from __future__ import annotations

import re
from base64 import encodebytes
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from sendledger.plugin import Attachment, ContentFault
from sendledger_smtp.header import CONTROLS

NAME_FAULT = "attachment.name"
TYPE_FAULT = "attachment.type"

_PLAIN_NAME = re.compile(r"[A-Za-z0-9._ -]{1,60}")
# Composite types may not be base64 (RFC 2045 section 6.4).
_TYPE = re.compile(
    r"(?!message/|multipart/)[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
    r"(; charset=[a-z0-9-]{1,40})?",
    re.IGNORECASE,
)
_TURNS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c]")
_HALF = re.compile("[\ud800-\udfff]")
_BLOCK_BYTES = 57 * 1024  # whole lines of base64; small enough that other threads get their turn
_SEGMENT_MAX = 60  # keeps the line of a segment within the 78 characters of RFC 5322 section 2.1.1


def enclose(
    read: Iterable[bytes], attachments: Iterable[Attachment], boundary: bytes
) -> Iterator[bytes]:
    """Yield a multipart/mixed of *read*, its headers included, and of *attachments*.

    *boundary* must begin with ``=_``, which base64 cannot spell, and be no part of *read*. Raises
    ``ContentFault``, which quotes no name.
    """
    yield b'Content-Type: multipart/mixed;\r\n boundary="%b"\r\n\r\n' % boundary
    yield b"--%b\r\n" % boundary
    yield from read
    for attachment in attachments:
        yield b"--%b\r\n" % boundary
        yield b"Content-Type: %b\r\n" % _media_type(attachment.media_type)
        yield b"Content-Transfer-Encoding: base64\r\n"
        yield b"Content-Disposition: attachment;\r\n %b\r\n\r\n" % _file_name(attachment.name)
        yield from _encoded(attachment.content)
    yield b"--%b--\r\n" % boundary


def _encoded(content: bytes) -> Iterator[bytes]:
    for begin in range(0, len(content), _BLOCK_BYTES):
        yield encodebytes(content[begin : begin + _BLOCK_BYTES]).replace(b"\n", b"\r\n")


def _media_type(text: str) -> bytes:
    if _TYPE.fullmatch(text) is None:
        raise ContentFault(
            TYPE_FAULT, "the media type of an attachment is none that mail can carry"
        )
    return text.encode("ascii")


def _file_name(name: str) -> bytes:
    """Return the parameter that names the file: quoted where it is plain, else as in RFC 2231."""
    misleading = CONTROLS.search(name) or _TURNS.search(name) or _HALF.search(name)
    if not name or misleading or "/" in name or "\\" in name:
        raise ContentFault(NAME_FAULT, "the name of an attachment is no plain file name")
    if _PLAIN_NAME.fullmatch(name):
        return b'filename="%b"' % name.encode("ascii")
    segments = list(_segments(name))
    if len(segments) == 1:
        return b"filename*=utf-8''%b" % segments[0]
    first = b"filename*0*=utf-8''%b" % segments[0]
    rest = (b"filename*%d*=%b" % (n, text) for n, text in enumerate(segments[1:], 1))
    return b";\r\n ".join((first, *rest))


def _segments(name: str) -> Iterator[bytes]:
    """Cut the percent-encoded name between characters: some readers decode segment by segment."""
    segment = ""
    for encoded in (quote(character, safe="") for character in name):
        if len(segment) + len(encoded) > _SEGMENT_MAX:
            yield segment.encode("ascii")
            segment = ""
        segment += encoded
    yield segment.encode("ascii")
