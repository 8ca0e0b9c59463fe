"""HTTP to Twilio: the SDK's requests over connections of ours, each made before it is needed.

The SDK's own asynchronous client ignores its timeout and posts again after a 500, which sends twice.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from select import POLLIN, poll
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from twilio.http import AsyncHttpClient
from twilio.http.response import Response
from yarl import URL

ANSWER_BYTES_MAX = 4_000_000

# The SDK would write numbers into it, at whatever level is set elsewhere.
_SILENT = logging.Logger("silent")  # noqa: LOG001 - it is no part of the tree
_SILENT.disabled = True


class Unreached(Exception):  # noqa: N818 - a state of affairs, not an error
    """Nothing of the request was written. ``stage`` and ``fault`` are closed words."""

    def __init__(self, stage: str, fault: str) -> None:
        super().__init__(f"{stage}: {fault}")
        self.stage = stage
        self.fault = fault


class Unanswered(Exception):  # noqa: N818 - as above
    """The request may have been read, and no whole answer came. ``fault`` is a closed word."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault


class Answer(Response):  # type: ignore[misc]  # the SDK is untyped
    """A whole HTTP answer, as the SDK hands it on; ``octets`` is its body byte for byte."""

    def __init__(self, status: int, octets: bytes, retry_after: str | None) -> None:
        super().__init__(status, octets.decode("utf-8", "replace"))
        self.status = status
        self.octets = octets
        self.retry_after = retry_after

    def __repr__(self) -> str:
        return f"HTTP {self.status}"


async def _note_kept(_session: object, origin: SimpleNamespace, _params: object) -> None:
    origin.kept = True


_TRACING = aiohttp.TraceConfig()
_TRACING.on_connection_reuseconn.append(_note_kept)
_TRACING.freeze()


class HttpClient(AsyncHttpClient):  # type: ignore[misc]  # the SDK is untyped
    """At most ``connections_max`` connections; no redirects, no retries, no cookies, no proxies of the system."""

    def __init__(
        self,
        *,
        connections_max: int,
        idle_max: timedelta,
        connect_within: timedelta,
        answer_within: timedelta,
    ) -> None:
        super().__init__(_SILENT, is_async=True)
        self._connections_max = connections_max
        self._idle_s = idle_max.total_seconds()
        connect_s = connect_within.total_seconds()
        self._answer_s = answer_within.total_seconds()
        self._timeout = aiohttp.ClientTimeout(connect=connect_s, sock_connect=connect_s)
        self._session: aiohttp.ClientSession | None = None
        self._asked: aiohttp.ClientRequest | None = None
        self._closed = False

    async def connect(self, url: str) -> Connection:
        """Return a connection to the host of *url* that stands: a kept one, or a new one.

        Raises :class:`Unreached`. Released, it is there for the next request.
        """
        session = self._open_session()
        asked = self._asking(url)
        while True:
            origin = SimpleNamespace(kept=False)
            connection = await self._connect(session, asked, origin)
            if not (origin.kept and _has_ended(connection)):
                return connection
            connection.close()

    async def _connect(
        self, session: aiohttp.ClientSession, asked: aiohttp.ClientRequest, origin: SimpleNamespace
    ) -> Connection:
        assert session.connector is not None, "the session is open"
        traces = [Trace(session, _TRACING, origin)]
        try:
            return await session.connector.connect(asked, traces, self._timeout)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise unreached(error) from None

    def _asking(self, url: str) -> aiohttp.ClientRequest:
        """Return what names host and port to the connector; it is never sent, so one of it will do."""
        if self._asked is None:
            loop = asyncio.get_running_loop()
            self._asked = aiohttp.ClientRequest("GET", URL(url), loop=loop)
        return self._asked

    async def request(  # noqa: PLR0913, PLR0917 - the SDK's signature
        self,
        method: str,
        uri: str,
        params: dict[str, object] | None = None,
        data: dict[str, object] | None = None,
        headers: dict[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
        allow_redirects: bool = False,  # noqa: FBT001, FBT002 - as above
    ) -> Answer:
        """Make one request, once. Raises :class:`Unreached` or :class:`Unanswered`."""
        session = self._open_session()
        asked: dict[str, Any] = {
            "params": params,
            # Written here: aiohttp's own forms take twice as long.
            "data": None if data is None else urlencode(data).encode(),
            "headers": (headers or {}) | _own_headers(auth),
            "allow_redirects": allow_redirects,
        }
        try:
            async with asyncio.timeout(timeout or self._answer_s):
                async with session.request(method, uri, **asked) as answer:
                    octets = await _read(answer)
                    return Answer(answer.status, octets, answer.headers.get("Retry-After"))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise unreached(error) from None
        except TimeoutError:
            raise Unanswered("timeout") from None
        except aiohttp.ClientResponseError:
            raise Unanswered("protocol") from None
        except aiohttp.ClientError:
            raise Unanswered("closed") from None

    async def aclose(self) -> None:
        """Close every connection, lent ones included; from then on nothing is reached."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unreached("connect", "closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._connections_max, keepalive_timeout=self._idle_s
                ),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def _has_ended(connection: Connection) -> bool:
    """Whether a kept connection holds something to read: nothing was asked, so that is its end.

    The loop may not have seen it yet, and what is written after it would be in doubt for nothing.
    """
    transport = connection.transport
    if transport is None or transport.is_closing():
        return True
    ready = poll()
    ready.register(transport.get_extra_info("socket").fileno(), POLLIN)
    return bool(ready.poll(0))


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    octets = bytearray()
    async for chunk in answer.content.iter_any():
        octets += chunk
        if len(octets) > ANSWER_BYTES_MAX:
            raise Unanswered("protocol")
    return bytes(octets)


def _own_headers(auth: tuple[str, str] | None) -> dict[str, str]:
    # Not compressed, so that what is read is what was sent, byte for byte.
    plain = {"Accept-Encoding": "identity"}
    return plain if auth is None else plain | {"Authorization": aiohttp.encode_basic_auth(*auth)}


def unreached(error: Exception) -> Unreached:
    """Return what *error* says in closed words; its text names hosts, and may name more."""
    match error:
        case aiohttp.ClientSSLError():
            return Unreached("tls", "tls")
        case aiohttp.ClientConnectorDNSError():
            return Unreached("connect", "dns")
        case TimeoutError():
            return Unreached("connect", "timeout")
        case aiohttp.ClientConnectorError():
            return Unreached("connect", "refused")
        case _:
            return Unreached("connect", "closed")
