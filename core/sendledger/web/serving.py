"""The HTTP server, inside of the loop that everything else runs in."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

import uvicorn
from starlette.types import ASGIApp

from sendledger.settings.address import Address

CONNECTIONS_MAX = 1000
"""More are answered 503: better than a queue that nobody reaches the end of."""

BACKLOG = 2048
KEEP_ALIVE_S = 30


class AddressRefused(Exception):  # noqa: N818 - a refusal is the word for it
    """Nobody can listen there; says why and what to do."""


class _Server(uvicorn.Server):
    """Strictly private: a server that leaves signals to the command it is part of, and says when it is up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.up.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


@asynccontextmanager
async def serving_http(
    app: ASGIApp, address: Address, *, grace: timedelta
) -> AsyncIterator[Address]:
    """Serve *app* until the block ends; gives the address with the port that was taken.

    What has begun by then gets *grace* to finish. Raises :class:`AddressRefused`.
    """
    listener = _listen(address)
    server = _Server(_config(app, grace))
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await server.up.wait()
        yield Address(host=address.host, port=listener.getsockname()[1])
    finally:
        server.should_exit = True
        await running
        listener.close()


def _config(app: ASGIApp, grace: timedelta) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="none",
        lifespan="off",
        ws="none",
        interface="asgi3",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(grace.total_seconds())),
        limit_concurrency=CONNECTIONS_MAX,
        backlog=BACKLOG,
    )


def _listen(address: Address) -> socket.socket:
    try:
        [found, *_] = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, where = found
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise AddressRefused(
            f"receipts cannot be taken in at {address}: {reason.lower()}; end what listens there, or"
            " name another address as http.listen"
        ) from error
    return listener
