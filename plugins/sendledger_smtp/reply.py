"""Read SMTP replies byte for byte (RFC 5321 section 4.2), within bounds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

LINE_MAX_BYTES = 4096
"""A reply line; RFC 5321 section 4.5.3.1.5 asks for 512 at least."""

REPLY_MAX_BYTES = 65536
"""A whole reply, continuation lines included."""

_LINE = re.compile(rb"([2-5][0-9]{2})(?:([ -])([^\r\n]*))?\r?\n")
_ENHANCED = re.compile(rb"([245]\.[0-9]{1,3}\.[0-9]{1,3})(?![^\s])")
_REFERENCES = (
    re.compile(rb"\bqueued as ([\x21-\x7e]{1,128})", re.IGNORECASE),
    re.compile(rb"\bOK:? id=([\x21-\x7e]{1,128})", re.IGNORECASE),
    re.compile(rb"\[InternalId=([0-9]{1,128})", re.IGNORECASE),
    re.compile(rb"\bOK: (?=\S{0,127}[0-9])([\x21-\x7e]{1,128})", re.IGNORECASE),
)


class Malformed(ValueError):  # noqa: N818 - what the bytes are
    """The bytes are no reply; the session is out of step for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A complete reply. ``literal`` holds every byte as read, line ends included."""

    code: int
    literal: bytes
    lines: tuple[bytes, ...]

    @property
    def digit(self) -> int:
        """The first digit, which alone decides (RFC 5321 section 4.2.1)."""
        return self.code // 100

    @property
    def enhanced(self) -> str | None:
        """The enhanced status code as sent, of the last line that has one; never derived (RFC 2034)."""
        for line in reversed(self.lines):
            if found := _ENHANCED.match(line):
                return found[1].decode("ascii")
        return None

    @property
    def enhanced_disagrees(self) -> bool:
        """Whether the enhanced code's class is not the reply's, which RFC 2034 section 4 forbids."""
        return self.enhanced is not None and self.enhanced[0] != str(self.digit)

    @property
    def reference(self) -> str | None:
        """The queue id, where the text names it in one of the usual ways."""
        for pattern in _REFERENCES:
            if found := pattern.search(self.literal):
                return found[1].rstrip(b".,;)>]").decode("ascii") or None
        return None


def take_reply(buffer: bytearray) -> Reply | None:
    """Remove the first complete reply from *buffer*; None while it is incomplete.

    Raises :class:`Malformed` for a line that is no reply line, lines that disagree about the code,
    and what grows past the bounds. The buffer is then left as it was.
    """
    stop = buffer.find(b"\n", 0, LINE_MAX_BYTES)
    if stop >= 0 and buffer[3:4] != b"-":
        reply = _of_one_line(bytes(buffer[: stop + 1]))
        del buffer[: stop + 1]
        return reply
    return _take_lines(buffer)


@lru_cache(maxsize=256)
def _of_one_line(literal: bytes) -> Reply:
    """Read a reply of one line. A relay says the same few, three of them for each message."""
    line = _LINE.fullmatch(literal)
    if line is None:
        raise Malformed("a line is no reply line")
    return Reply(code=int(line[1]), literal=literal, lines=(line[3] or b"",))


def _take_lines(buffer: bytearray) -> Reply | None:
    lines: list[re.Match[bytes]] = []
    end = 0
    while line := _take_line(buffer, end):
        if lines and line[1] != lines[0][1]:
            raise Malformed("the lines of one reply carry different codes")
        lines.append(line)
        end = line.end()
        if end > REPLY_MAX_BYTES:
            break
        if line[2] != b"-":
            return _cut(buffer, lines, end)
    if len(buffer) > REPLY_MAX_BYTES:
        raise Malformed("the reply is too long")
    return None


def _take_line(buffer: bytearray, start: int) -> re.Match[bytes] | None:
    stop = buffer.find(b"\n", start, start + LINE_MAX_BYTES)
    if stop < 0:
        if len(buffer) - start >= LINE_MAX_BYTES:
            raise Malformed("a line of the reply is too long")
        return None
    line = _LINE.fullmatch(buffer, start, stop + 1)
    if line is None:
        raise Malformed("a line is no reply line")
    return line


def _cut(buffer: bytearray, lines: list[re.Match[bytes]], end: int) -> Reply:
    # A match reads its groups from the buffer itself: take them before the buffer shrinks.
    code = int(lines[0][1])
    texts = tuple(bytes(line[3] or b"") for line in lines)
    literal = bytes(buffer[:end])
    del buffer[:end]
    return Reply(code=code, literal=literal, lines=texts)
