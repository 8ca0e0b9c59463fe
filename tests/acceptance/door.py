"""A door before the database: shut, it cuts whoever is inside and refuses whoever comes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

CHUNK_BYTES = 65_536


@dataclass(eq=False)
class Door:
    """Forwards to the server of *target*, a database URL, while it is open; an async context manager."""

    target: str
    port: int = 0
    _listener: asyncio.Server | None = field(default=None, init=False)
    _inside: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    async def __aenter__(self) -> Self:
        """Open on a free port of this machine."""
        await self.open()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Shut for good."""
        await self.shut()

    @property
    def dsn(self) -> str:
        """The same database, by way of this door."""
        found = urlsplit(self.target)
        account = found.netloc.rpartition("@")[0]
        return found._replace(netloc=f"{account}@127.0.0.1:{self.port}").geturl()

    async def open(self) -> None:
        """Let everybody in, on the same port as before."""
        if self._listener is None:
            self._listener = await asyncio.start_server(self._meet, "127.0.0.1", self.port)
            self.port = self._listener.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        """Refuse new connections, and cut those that stand."""
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        listener.close()
        for connection in tuple(self._inside):
            connection.cancel()
        await asyncio.gather(*self._inside, return_exceptions=True)
        await listener.wait_closed()

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._inside.add(task)
        task.add_done_callback(self._inside.discard)
        # A task that was cancelled before its first step never came to close its connection.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = urlsplit(self.target)
        server = await asyncio.open_connection(address.hostname, address.port)
        ways = [
            asyncio.create_task(_forward(reader, server[1])),
            asyncio.create_task(_forward(server[0], writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            server[1].transport.abort()
            await asyncio.gather(*ways, return_exceptions=True)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while found := await reader.read(CHUNK_BYTES):
            writer.write(found)
            await writer.drain()
