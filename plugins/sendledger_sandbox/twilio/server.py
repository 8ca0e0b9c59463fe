"""The stand-in: listens, can be taken down and brought back on its port, and keeps account and journal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl

import aiohttp
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from sendledger_sandbox.twilio.api import Api, Call
from sendledger_sandbox.twilio.callbacks import Callbacks
from sendledger_sandbox.twilio.courses import Courses
from sendledger_sandbox.twilio.journal import Journal
from sendledger_sandbox.twilio.message import Message
from sendledger_sandbox.twilio.outcomes import Phase
from sendledger_sandbox.twilio.provider import Dropped, Provider, Where, where_of
from sendledger_sandbox.twilio.replies import JSON_TYPE

CALLBACKS_AT_ONCE = 50
CUT_S = 1.0
"""What a request that was cut is given to end; it needs no more than a turn of the loop."""


@dataclass(kw_only=True, eq=False)
class TwilioStandIn(Provider):
    """A server of Twilio's messages API that journals what it accepts; an async context manager.

    *port* 0 takes a free one; after entering, ``port`` is the real one and stays it. *fsync* off makes a
    benchmark of the peer rather than of the disk. Messages live as long as this object, the journal longer.
    """

    journal: Path
    host: str = "127.0.0.1"
    port: int = 0
    fsync: bool = True

    _journal: Journal = field(init=False, repr=False)
    _api: Api = field(init=False, repr=False)
    _courses: Courses = field(init=False, repr=False)
    _client: aiohttp.ClientSession = field(init=False, repr=False)
    _door: _Door | None = field(default=None, init=False, repr=False)
    _listener: asyncio.Server | None = field(default=None, init=False, repr=False)
    _faults: list[BaseException] = field(default_factory=list, init=False, repr=False)

    @property
    def url(self) -> str:
        """The base of its addresses, in place of that of Twilio's API."""
        return f"http://{self.host}:{self.port}"

    async def __aenter__(self) -> Self:
        """Open the journal and listen. Raises ``OSError`` and ``JournalFault``."""
        self._journal = Journal(self.journal, fsync=self.fsync).open()
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CALLBACKS_AT_ONCE),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._courses = Courses(self, Callbacks(self, self._journal, self._client))
        self._api = Api(self, self._journal, self._courses)
        try:
            await self.reopen()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Stop. Raises what the observer raised, so that a failed check in one is not lost."""
        await self.close()
        await self._api.accepting.at_rest()
        await self._courses.tasks.stop()
        await self._end()
        if faults := [*self._faults, *self._courses.tasks.faults]:
            raise faults[0]

    async def _end(self) -> None:
        await self._client.close()
        await self._journal.close()

    async def reopen(self) -> None:
        """Listen on the same port again; messages, counts and script turns go on. Raises ``OSError``."""
        if self._listener is not None:
            return
        self._door = _Door(self._handle, self._meet, self.connections.closed)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._door, self.host, self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and cut every connection; what was accepted goes on, and its callbacks."""
        if self._listener is None or self._door is None:
            return
        listener, self._listener = self._listener, None
        listener.close()
        await self._door.shut()
        await listener.wait_closed()

    async def at_rest(self) -> None:
        """Wait until no message changes any more and every callback is posted."""
        await self._api.accepting.at_rest()
        await self._courses.tasks.at_rest()

    def messages(self) -> Iterator[Message]:
        """Return every message of the account, in the order of acceptance."""
        return iter(self._api.messages)

    # --- HTTP ------------------------------------------------------------------------------------

    def _meet(self, transport: asyncio.Transport) -> asyncio.Task[int]:
        """Count a connection; the task ends with its number when the first request may be read."""
        return asyncio.create_task(self._welcome(transport, self.connections.opened()))

    async def _welcome(self, transport: asyncio.Transport, number: int) -> int:
        try:
            await self.reach(Phase.CONNECT, Where(connection=number))
        except Dropped:
            transport.abort()
        except Exception as fault:  # noqa: BLE001 - raised again when the server is left
            self._faults.append(fault)
            transport.abort()
        return number

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        # What cannot be read is between the peer and the HTTP library, which answers it.
        body = await request.read()
        try:
            return await self._respond(request, body)
        except Dropped:
            pass
        except Exception as fault:  # noqa: BLE001 - raised again when the server is left
            self._faults.append(fault)
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)

    async def _respond(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        assert self._door is not None
        number = await self._door.number_of(request.protocol)
        reply = await self._api.answer(_call(request, body, number))
        response = web.Response(
            status=reply.status,
            body=reply.body,
            headers=reply.headers,
            content_type=JSON_TYPE if reply.body else None,
        )
        if reply.accepted is not None and self.observer is not None:
            await response.prepare(request)
            await response.write_eof()
            # The peer has what it asked for and may go; that ends the request, but not the observer.
            where = where_of(reply.accepted, connection=number)
            await asyncio.shield(self._courses.tasks.begin(self.tell(Phase.ANSWERED, where)))
        return response


def _call(request: web.BaseRequest, body: bytes, connection: int) -> Call:
    pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
    return Call(
        method=request.method,
        path=request.path,
        query=dict(request.query),
        form=dict(pairs),
        authorization=request.headers.get("Authorization"),
        connection=connection,
    )


class _Door(web.Server):
    """The HTTP server of one period of listening; answers on a connection once *meet* has ended."""

    def __init__(
        self,
        handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        meet: Callable[[asyncio.Transport], asyncio.Task[int]],
        part: Callable[[], None],
    ) -> None:
        # A request ends with its connection, so that nobody is kept waiting for whom nobody waits.
        super().__init__(handle, access_log=None, handler_cancellation=True)
        self._meet, self._part = meet, part
        self._met: dict[RequestHandler, asyncio.Task[int]] = {}
        self._transports: dict[RequestHandler, asyncio.Transport] = {}

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._transports[handler] = transport
        self._met[handler] = self._meet(transport)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        del self._transports[handler]
        self._met.pop(handler).cancel()
        self._part()

    async def shut(self) -> None:
        """Cut every connection, and with it the request that is being answered."""
        for transport in self._transports.values():
            transport.abort()
        await self.shutdown(CUT_S)

    async def number_of(self, handler: RequestHandler) -> int:
        """Return the number of a connection, once it may go on. Raises :class:`Dropped` when it is lost."""
        meeting = self._met.get(handler)
        if meeting is None:
            raise Dropped
        if not meeting.done():
            await asyncio.wait([meeting])
        if meeting.cancelled():
            raise Dropped
        return meeting.result()
