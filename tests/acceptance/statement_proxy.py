"""A TCP proxy before Postgres that knows which statement passes, and can stop the world around it.

It speaks just enough of the frontend/backend protocol (version 3) to see where a statement begins and
where its answer ends. The client must connect without TLS: ``dsn`` says so.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.resources import files
from typing import Self
from urllib.parse import urlsplit

_LENGTH_BYTES = 4
_READY = b"Z"
"""ReadyForQuery ends the answer to one message; what was no transaction's is committed by then."""
_COPYING = b"G"
"""CopyInResponse: the client waits for it, too."""

TRANSACTION = frozenset({"BEGIN", "COMMIT", "ROLLBACK"})
POOL_CHECK = "(pool check)"
SCHEMA_CHECK = "(schema check)"


class Side(StrEnum):
    """On which side of the server's work on a statement."""

    BEFORE = "before"
    AFTER = "after"


Watch = Callable[[str, Side], bool]
"""Told of each statement before it is forwarded, and again when the server has answered and nobody heard
it yet. True cuts the connection there."""


def shipped_statements() -> dict[str, str]:
    """Return the names of the product's statements by their first line, which is a comment of each file's own."""
    folder = files("sendledger.store").joinpath("sql")
    texts = {f.name.removesuffix(".sql"): f.read_text() for f in folder.iterdir()}
    names = {text.partition("\n")[0]: name for name, text in texts.items()}
    assert len(names) == len(texts), "two statements begin with the same comment"
    return names


NAMES = shipped_statements()


def name_of(text: str) -> str:
    """Return the name of a message: that of its last statement's file, or what else a worker sends."""
    shipped = [NAMES[line] for line in text.split("\n") if line in NAMES]
    if shipped:
        return shipped[-1]
    first = text.partition("\n")[0]
    word = first.partition(";")[0]
    if word in TRANSACTION:
        return word
    return SCHEMA_CHECK if first else POOL_CHECK


@dataclass(slots=True)
class _Conversation:
    """One client's: which statements are with the server, and which one came last."""

    asked: deque[str] = field(default_factory=deque)
    newest: str = ""

    def name(self, message: bytes) -> str | None:
        """Return the name of the statement that *message* begins, None when it begins none.

        A COMMIT is named with what it commits.
        """
        match message[:1]:
            case b"Q":
                text = message[1 + _LENGTH_BYTES :]
            case b"P":
                text = message[1 + _LENGTH_BYTES :].partition(b"\0")[2]
            case _:
                return None
        name = name_of(text.partition(b"\0")[0].decode())
        if name == "COMMIT":
            return f"COMMIT {self.newest}"
        self.newest = name
        return name


@dataclass(eq=False)
class StatementProxy:
    """Listens before the server of *target*, a database URL; an async context manager.

    ``errors`` holds each statement that the server refused, with its SQLSTATE; ``watch`` may change
    while it runs.
    """

    target: str
    watch: Watch | None = None
    errors: list[tuple[str, str]] = field(default_factory=list, init=False)
    _listener: asyncio.Server = field(init=False)
    _conversations: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    async def __aenter__(self) -> Self:
        """Listen on a free port of this machine."""
        self._listener = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Stop, and cut what is still connected."""
        self._listener.close()
        for conversation in self._conversations:
            conversation.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)
        await self._listener.wait_closed()

    @property
    def dsn(self) -> str:
        """The same database, by way of this proxy and without TLS."""
        port = self._listener.sockets[0].getsockname()[1]
        found = urlsplit(self.target)
        account = found.netloc.rpartition("@")[0]
        return found._replace(
            netloc=f"{account}@127.0.0.1:{port}" if account else f"127.0.0.1:{port}",
            query="sslmode=disable&gssencmode=disable",
        ).geturl()

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._conversations.add(task)
        task.add_done_callback(self._conversations.discard)
        # A task that was cancelled before its first step never came to close its connection.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = urlsplit(self.target)
        async with _connected(address.hostname or "127.0.0.1", address.port or 5432) as server:
            conversation = _Conversation()
            ways = {
                asyncio.create_task(self._forward(conversation, reader, server[1])),
                asyncio.create_task(self._answer(conversation, server[0], writer)),
            }
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)

    async def _forward(
        self, talk: _Conversation, client: asyncio.StreamReader, server: asyncio.StreamWriter
    ) -> None:
        """Pass messages on to the server until either side leaves or the watch cuts."""
        server.write(await _untyped(client))
        while message := await _message(client):
            name = talk.name(message)
            if name is not None:
                if self._cuts(name, Side.BEFORE):
                    return
                talk.asked.append(name)
            server.write(message)
            await server.drain()

    async def _answer(
        self, talk: _Conversation, server: asyncio.StreamReader, client: asyncio.StreamWriter
    ) -> None:
        """Pass answers back, each statement's only once it is whole; a COPY's asks for its rows before."""
        held = b""
        while message := await _message(server):
            held += message
            kind = message[:1]
            if talk.asked and kind == b"E":
                self.errors.append((talk.asked[0], sqlstate_of(message)))
            if talk.asked and kind not in (_READY, _COPYING):
                continue
            if talk.asked and kind == _READY and self._cuts(talk.asked.popleft(), Side.AFTER):
                return
            client.write(held)
            held = b""
            await client.drain()
        client.write(held)  # the last words of a server that ends the connection

    def _cuts(self, name: str, side: Side) -> bool:
        return self.watch is not None and self.watch(name, side)


def sqlstate_of(message: bytes) -> str:
    """Return the code of an ErrorResponse."""
    fields = message[1 + _LENGTH_BYTES :].split(b"\0")
    return next((field[1:].decode() for field in fields if field[:1] == b"C"), "")


@asynccontextmanager
async def _connected(
    host: str, port: int
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _untyped(reader: asyncio.StreamReader) -> bytes:
    """Return the first message of a client, which has no type; empty when there is none."""
    with suppress(asyncio.IncompleteReadError, OSError):
        head = await reader.readexactly(_LENGTH_BYTES)
        return head + await reader.readexactly(int.from_bytes(head) - _LENGTH_BYTES)
    return b""


async def _message(reader: asyncio.StreamReader) -> bytes:
    """Return the next message, type and length included; empty when there is none any more."""
    with suppress(asyncio.IncompleteReadError, OSError):
        head = await reader.readexactly(1 + _LENGTH_BYTES)
        return head + await reader.readexactly(int.from_bytes(head[1:]) - _LENGTH_BYTES)
    return b""
