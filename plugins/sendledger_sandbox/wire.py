"""Bytes to lines and messages: the one place that knows line ends, dots and limits."""

from __future__ import annotations

import asyncio
import re
import ssl
from contextlib import suppress

LINE_MAX = 2048
"""Octets of a command line with its CRLF: RFC 5321 section 4.5.3.1.4 plus room for all extensions offered."""

AUTH_LINE_MAX = 12288
"""Octets of an AUTH line (RFC 4954 section 4)."""

TEXT_LINE_MAX = 1000
"""Octets of a message line with its CRLF, its stuffed dot not counted (RFC 5321 section 4.5.3.1.6)."""

_READ_BYTES = 65536
_LINGER_S = 2.0
_END = b"\r\n.\r\n"
_LOOSE_END = re.compile(rb"\r?\n\.\r?\n")
_LOOSE_DOT = re.compile(rb"(\n)\.")
_SINGLE_DOT = re.compile(rb"\r\n\.[^.]")


class Violation(Exception):  # noqa: N818 - what the peer did, not an error of ours
    """The peer broke the protocol so that nothing after it can be trusted; ``reply`` ends the session."""

    def __init__(self, reply: str) -> None:
        super().__init__(reply)
        self.reply = reply


class PeerGone(Exception):  # noqa: N818 - what the peer did, not an error of ours
    """The peer closed its side."""


class Wire:
    """One connection. Replies are held back while the peer's pipelined group is still being answered."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        strict: bool,
        idle_s: float,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._strict, self._idle_s = strict, idle_s
        self._buffer = bytearray()
        self._replies = bytearray()

    @property
    def has_input(self) -> bool:
        """Whether the peer has sent more than was read so far."""
        return bool(self._buffer)

    async def line(self, line_max: int = LINE_MAX) -> str:
        """Return the next line without its end.

        Raises :class:`Violation`, :class:`PeerGone`, and ``TimeoutError`` when the peer stays idle.
        """
        start = 0
        while (end := self._buffer.find(b"\n", start)) < 0 and len(self._buffer) < line_max:
            start = len(self._buffer)
            await self._fill()
        if not 0 <= end < line_max:
            raise Violation("500 5.5.2 line too long")
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        return self._text(line)

    def _text(self, line: bytes) -> str:
        content = line[:-2] if line.endswith(b"\r\n") else line[:-1]
        if self._strict and (len(content) + 2 != len(line) or b"\r" in content):
            raise Violation("500 5.5.2 bare CR or LF; lines end in CRLF")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise Violation("500 5.5.2 neither ASCII nor UTF-8") from None

    async def wait_for_input(self) -> None:
        """Return once at least one byte is there. Raises as :meth:`line`."""
        if not self._buffer:
            await self._fill()

    async def message(self, size_max: int) -> bytes | None:
        """Read up to and with the final dot; return the message as sent, still dot-stuffed.

        None means that it was longer than *size_max* by any count, and was thrown away. Raises as :meth:`line`.
        """
        # The line end of DATA opens the message: an empty one is just ".CRLF".
        self._buffer[:0] = b"\r\n"
        start, kept = 0, True
        while (end := self._find_end(start)) is None:
            if len(self._buffer) > 2 * size_max + _READ_BYTES:
                kept = False
                del self._buffer[: -len(_END)]
            start = max(0, len(self._buffer) - len(_END))
            await self._fill()
        message = bytes(self._buffer[2 : end[0]]) if kept else None
        del self._buffer[: end[1]]
        return message

    def _find_end(self, start: int) -> tuple[int, int] | None:
        """Where the message ends (with its last line end) and where the next command begins."""
        if self._strict:
            at = self._buffer.find(_END, start)
            return (at + 2, at + len(_END)) if at >= 0 else None
        found = _LOOSE_END.search(self._buffer, start)
        return (found.start() + found.group().index(b"\n") + 1, found.end()) if found else None

    async def _fill(self) -> None:
        await self.flush()
        async with asyncio.timeout(self._idle_s):
            received = await self._reader.read(_READ_BYTES)
        if not received:
            raise PeerGone
        self._buffer += received

    def reply(self, text: str) -> None:
        """Queue one reply line, code first."""
        self._replies += text.encode() + b"\r\n"

    def reply_raw(self, raw: bytes) -> None:
        """Queue bytes as they are."""
        self._replies += raw

    async def flush(self) -> None:
        """Write what is queued."""
        if self._replies:
            self._writer.write(bytes(self._replies))
            self._replies.clear()
            await self._writer.drain()

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Go on under TLS. Raises :class:`Violation` for input that came in the clear behind STARTTLS."""
        # RFC 3207 section 4.2: what was injected before the handshake must not be read after it.
        if self._buffer:
            raise Violation("501 5.5.4 input behind STARTTLS")
        self.reply("220 2.0.0 ready to start TLS")
        await self.flush()
        await self._writer.start_tls(context)

    async def hang_up(self) -> None:
        """Close so that the peer still reads the last reply, even when input of its is left unread."""
        await self.flush()
        if self._writer.can_write_eof():
            self._writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while await self._reader.read(_READ_BYTES):
                    pass

    async def abort(self) -> None:
        """Close at once; what is queued is lost."""
        self._writer.transport.abort()
        with suppress(OSError):
            # Python 3.11 never says that a connection is closed whose handshake was broken off.
            async with asyncio.timeout(_LINGER_S):
                await self._writer.wait_closed()


def unstuff(message: bytes, *, strict: bool = True) -> bytes:
    """Take the stuffed dots out (RFC 5321 section 4.5.2)."""
    if strict:
        return (b"\r\n" + message).replace(b"\r\n.", b"\r\n")[2:]
    return _LOOSE_DOT.sub(rb"\1", b"\n" + message)[1:]


def fault_of(message: bytes, *, eight_bit: bool) -> str | None:
    """Return the refusal of a still dot-stuffed *message* that breaks RFC 5321, or None."""
    ends = message.count(b"\r\n")
    if message.count(b"\n") != ends or message.count(b"\r") != ends:
        return "554 5.6.0 bare CR or LF in the message"
    if _SINGLE_DOT.search(b"\r\n" + message):
        return "554 5.6.0 line begins with a dot that was not doubled"
    if max(map(len, unstuff(message).split(b"\r\n"))) + 2 > TEXT_LINE_MAX:
        return f"554 5.6.0 line longer than {TEXT_LINE_MAX - 2} octets"
    if not eight_bit and not message.isascii():
        return "554 5.6.1 eight-bit content without BODY=8BITMIME"
    return None
