"""A Postgres proxy in the test's own loop: it knows every message the client sends, and can cut the line.

Frontend messages are read one by one (PostgreSQL, "Message Formats") and forwarded in order; what the
server answers is passed on as it comes. A cut tells the client nothing before the server is done, so that
what a test sees afterwards is settled: applied when the message was forwarded, undone when it was not.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit

KINDS = {
    b"B": "Bind", b"C": "Close", b"D": "Describe", b"E": "Execute", b"F": "FunctionCall",
    b"H": "Flush", b"P": "Parse", b"Q": "Query", b"S": "Sync", b"X": "Terminate", b"c": "CopyDone",
    b"d": "CopyData", b"f": "CopyFail", b"p": "Password",
}  # fmt: skip
STARTUP = "Startup"


class Cut(Exception):  # noqa: N818 - a deed, not a slip
    """Raised by a hook to drop this connection: before the message is forwarded, or after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One frontend message. ``text`` is the SQL of Parse and Query; ``number`` counts from 1 over all."""

    kind: str
    text: str
    number: int


Hook = Callable[[Message], Awaitable[None]]


async def nothing(_: Message) -> None:
    """Let the message pass."""


@dataclass(slots=True, kw_only=True)
class Proxy:
    """What passed, and what is to happen when it does. Both hooks may be set and reset at any time."""

    dsn: str = ""
    before: Hook = nothing
    after: Hook = nothing
    seen: Counter[str] = field(default_factory=Counter)
    statements: list[str] = field(default_factory=list)
    cuts: int = 0
    _lines: set[asyncio.Task[None]] = field(default_factory=set)

    def message(self, kind: str, body: bytes) -> Message:
        """Count a message that came in."""
        self.seen[kind] += 1
        text = _text(kind, body)
        if text:
            self.statements.append(text)
        return Message(kind=kind, text=text, number=self.seen.total())


def when(text: str, *, nth: int = 1) -> Hook:
    """Return a hook that cuts at the *nth* statement that begins with *text*."""
    left = nth

    async def hook(message: Message) -> None:
        nonlocal left
        if message.text.startswith(text):
            left -= 1
            if left == 0:
                raise Cut

    return hook


@asynccontextmanager
async def proxied(dsn: str) -> AsyncIterator[Proxy]:
    """Lend a proxy before the server at *dsn* (a URL); ``proxy.dsn`` leads through it."""
    url = urlsplit(dsn)
    proxy = Proxy()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        proxy._lines.add(task)
        try:
            await _Line(proxy, reader, writer).run(url.hostname or "", url.port or 5432)
        finally:
            proxy._lines.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    proxy.dsn = _through(dsn, server.sockets[0].getsockname()[1])
    try:
        yield proxy
    finally:
        server.close()
        for line in list(proxy._lines):
            line.cancel()
        await asyncio.gather(*proxy._lines, return_exceptions=True)


def _through(dsn: str, port: int) -> str:
    # In the clear, or there is nothing to read.
    url = urlsplit(dsn)
    login = url.netloc.rpartition("@")[0]
    plain = dict(parse_qsl(url.query)) | {"sslmode": "disable", "gssencmode": "disable"}
    place = f"{login}@127.0.0.1:{port}" if login else f"127.0.0.1:{port}"
    return url._replace(netloc=place, query=urlencode(plain)).geturl()


def _text(kind: str, body: bytes) -> str:
    parts = body.split(b"\0")
    match kind:
        case "Query":
            return parts[0].decode()
        case "Parse":
            return parts[1].decode()
        case _:
            return ""


class _Line:
    """Strictly private: one client and its server connection."""

    def __init__(
        self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy, self._client, self._to_client = proxy, reader, writer
        self._muted = False

    async def run(self, host: str, port: int) -> None:
        server, to_server = await asyncio.open_connection(host, port)
        answers = asyncio.create_task(self._pass_answers(server))
        try:
            await self._pass_messages(to_server)
        except Cut:
            self._proxy.cuts += 1
            self._muted = True
            to_server.write_eof()
            await answers
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            answers.cancel()
            to_server.close()
            self._to_client.transport.abort()

    async def _pass_messages(self, to_server: asyncio.StreamWriter) -> None:
        kind = STARTUP
        while True:
            head = b"" if kind == STARTUP else await self._client.readexactly(1)
            kind = KINDS[head] if head else STARTUP
            length = await self._client.readexactly(4)
            body = await self._client.readexactly(int.from_bytes(length) - 4)
            message = self._proxy.message(kind, body)
            await self._proxy.before(message)
            to_server.write(head + length + body)
            # Nothing is awaited between the write and this hook: a cut outruns every answer.
            await self._proxy.after(message)
            await to_server.drain()
            kind = "any"

    async def _pass_answers(self, server: asyncio.StreamReader) -> None:
        while answer := await server.read(65536):
            if not self._muted:
                self._to_client.write(answer)
                await self._to_client.drain()
        # The server hung up by itself; the client is told, unless it is to learn it from the cut.
        if not self._muted:
            self._to_client.close()
