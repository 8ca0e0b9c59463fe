"""The routes, and what is said of each request: its route and its status, never its path."""

from __future__ import annotations

import time

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sendledger.plugin.receipts import CALLBACK_ROUTE
from sendledger.web.access import log_request
from sendledger.web.callbacks import Callbacks
from sendledger.web.context import Reception
from sendledger.web.health import Readiness, live

NO_ROUTE = "none"


def build_app(reception: Reception) -> ASGIApp:
    """Return the application that answers all routes."""
    return _Front(Callbacks(reception), _routed(reception))


class _Front:
    """Gives callbacks to their route at once: routing costs as much as taking one in. The rest is routed."""

    def __init__(self, callbacks: Callbacks, rest: ASGIApp) -> None:
        self._callbacks = callbacks
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == "http" and scope["method"] == "POST":
            match scope["path"].split("/"):
                case ["", "callbacks", str(channel), str(token)] if channel and token:
                    await self._callbacks.take_in(scope, receive, send, (channel, token))
                    return
        await self._rest(scope, receive, send)


def _routed(reception: Reception) -> Starlette:
    ready = Readiness(reception).look
    return Starlette(
        routes=[
            Route(CALLBACK_ROUTE, _never, methods=["POST"]),
            Route("/health", ready),
            Route("/health/ready", ready),
            Route("/health/live", live),
        ],
        middleware=[Middleware(_AccessLog)],
        exception_handlers={HTTPException: _bare, Exception: _failed},
    )


async def _never(_: Request) -> Response:
    """Stand where callbacks are routed to: another method is answered 405, and POST never comes here."""
    return Response(status_code=404)


async def _bare(_: Request, error: Exception) -> Response:
    """Answer what no route takes with a status and nothing else."""
    assert isinstance(error, HTTPException)
    return Response(status_code=error.status_code, headers=error.headers)


async def _failed(_: Request, _error: Exception) -> Response:
    """Answer for a fault of ours, which the server logs."""
    return Response(status_code=500)


class _AccessLog:
    """Logs each request by its route."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and say how it ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = scope.get("route")
                name = route.path if isinstance(route, Route) else NO_ROUTE
                log_request(name, message["status"], time.monotonic() - began)
            await send(message)

        await self._app(scope, receive, tell)
