"""A connection to a loft: commands out, literal replies in."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

REPLY_MAX_BYTES = 512
_REPLY = re.compile(rb"([1-5][0-9]{2}) ([^\r\n]*)\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A complete reply, and its bytes as they were read."""

    code: int
    text: str
    literal: bytes

    @property
    def positive(self) -> bool:
        """Whether the loft agreed."""
        return self.code // 100 == 2


class WireBroken(Exception):  # noqa: N818 - a state of the connection
    """There is no reply. ``fault`` is refused, closed, timeout or protocol."""

    def __init__(self, fault: str, literal: bytes = b"") -> None:
        super().__init__(fault)
        self.fault = fault
        self.literal = literal


class Wire:
    """One connection. After :class:`WireBroken` only ``close`` is of use."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: timedelta
    ) -> None:
        self._reader, self._writer = reader, writer
        self._patience = patience

    @classmethod
    async def open(cls, host: str, port: int, patience: timedelta) -> Wire:
        """Connect. Raises :class:`WireBroken`."""
        try:
            async with asyncio.timeout(patience.total_seconds()):
                streams = await asyncio.open_connection(host, port, limit=REPLY_MAX_BYTES)
        except TimeoutError:
            raise WireBroken("timeout") from None
        except OSError:
            raise WireBroken("refused") from None
        return cls(*streams, patience)

    def write(self, command: bytes) -> None:
        """Hand *command*, with its line end, to the transport. Raises :class:`WireBroken` if it is gone."""
        if self._reader.at_eof() or self._writer.is_closing():
            raise WireBroken("closed")
        self._writer.write(command)

    async def read_reply(self) -> Reply:
        """Read the next reply. Raises :class:`WireBroken`."""
        line = await self._line()
        found = _REPLY.fullmatch(line)
        if found is None:
            raise WireBroken("protocol", line)
        return Reply(
            code=int(found[1]), text=found[2].decode("ascii", "backslashreplace"), literal=line
        )

    async def _line(self) -> bytes:
        try:
            async with asyncio.timeout(self._patience.total_seconds()):
                return await self._reader.readuntil(b"\n")
        except TimeoutError:
            raise WireBroken("timeout") from None
        except asyncio.LimitOverrunError:
            raise WireBroken("protocol") from None
        except asyncio.IncompleteReadError as cut:
            raise WireBroken("closed", cut.partial) from None
        except OSError:
            raise WireBroken("closed") from None

    async def close(self) -> None:
        """Cut the connection, whatever is under way on it; returns when it is gone."""
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()
