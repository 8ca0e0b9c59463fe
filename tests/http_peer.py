"""A scripted HTTP peer on raw sockets: it can say garbage, say nothing, or hang up at any point."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it was read whole; *connection* counts from 1."""

    connection: int
    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def form(self) -> dict[str, str]:
        """The fields of its form."""
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))


class LastWords(bytes):
    """An answer after which the peer hangs up."""


Respond = Callable[[Asked], bytes | Awaitable[bytes | None] | None]
"""Gives the bytes of an answer; nothing means to hang up."""


def response(status: int, body: bytes, **headers: str) -> bytes:
    """Return an HTTP answer."""
    given = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"HTTP/1.1 {status} Status\r\n{head}\r\n".encode() + body


class HttpPeer:
    """Listens on loopback; ``respond`` may be changed while it runs. An async context manager."""

    def __init__(self, respond: Respond, *, tls: ssl.SSLContext | None = None) -> None:
        self.respond = respond
        self.host, self.port = "127.0.0.1", 0
        self._tls = tls
        self.asked: list[Asked] = []
        self._said = bytearray()
        self.met = 0
        self._calls: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The base of its addresses."""
        return f"http{'s' if self._tls else ''}://{self.host}:{self.port}"

    @property
    def said(self) -> bytes:
        """Everything that was answered."""
        return bytes(self._said)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._calls)

    async def __aenter__(self) -> Self:
        await self.come_back()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.leave()

    async def come_back(self) -> None:
        """Listen, again on the same port."""
        self._listener = await asyncio.start_server(self._meet, self.host, self.port, ssl=self._tls)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def leave(self) -> None:
        """Cut every connection and listen no more."""
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        listener.close()
        calls = tuple(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await listener.wait_closed()

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.met += 1
        call = asyncio.create_task(self._serve(self.met, reader, writer))
        self._calls.add(call)
        call.add_done_callback(lambda done: self._part(done, writer))

    def _part(self, call: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        self._calls.discard(call)
        writer.transport.abort()

    async def _serve(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                asked = await _read(number, reader)
                self.asked.append(asked)
                octets = await _unless_left(reader, self.respond(asked))
                if octets is None:
                    return
                self._said += octets
                writer.write(octets)
                await writer.drain()
                if isinstance(octets, LastWords):
                    return


async def _unless_left(
    reader: asyncio.StreamReader, given: bytes | Awaitable[bytes | None] | None
) -> bytes | None:
    """Wait for an answer for as long as the client does; it says nothing while it waits."""
    if given is None or isinstance(given, bytes):
        return given
    answer, left = asyncio.ensure_future(given), asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait([answer, left], return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else None
    finally:
        answer.cancel()
        left.cancel()
        await asyncio.gather(answer, left, return_exceptions=True)


async def _read(number: int, reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(connection=number, method=method, target=target, headers=headers, body=body)
