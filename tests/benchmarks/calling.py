"""A provider that posts as cheaply as Python can, so that the server is what is measured."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import cast

TAKEN = b"HTTP/1.1 204"
END = b"\r\n\r\n"


class _Connection(asyncio.Protocol):
    """Posts the next request when the last one was answered."""

    def __init__(self, left: Iterator[bytes]) -> None:
        self._left = left
        self._read = b""
        self._transport: asyncio.Transport | None = None
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def post(self) -> None:
        """Post until nothing is left. Raises ``AssertionError`` for another answer than 204."""
        self._post()
        await self._done

    def close(self) -> None:
        """Hang up."""
        assert self._transport is not None
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Read an answer, which has no body."""
        self._read += data
        if not self._read.endswith(END):
            return
        answer, self._read = self._read, b""
        if answer.startswith(TAKEN):
            self._post()
        elif not self._done.done():
            self._done.set_exception(AssertionError(f"expected 204, found {answer[:12]!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Say so where an answer was waited for."""
        if not self._done.done():
            self._done.set_exception(exc or ConnectionResetError("the server hung up"))

    def _post(self) -> None:
        request = next(self._left, None)
        if request is not None:
            assert self._transport is not None
            self._transport.write(request)
        elif not self._done.done():
            self._done.set_result(None)


async def call(port: int, requests: Sequence[bytes], *, connections: int) -> float:
    """Post all of *requests* as fast as they are answered; returns how many seconds it took."""
    left = iter(requests)
    loop = asyncio.get_running_loop()
    lines = [
        (await loop.create_connection(lambda: _Connection(left), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    try:
        began = time.monotonic()
        await asyncio.gather(*(line.post() for line in lines))
        return time.monotonic() - began
    finally:
        for line in lines:
            line.close()
