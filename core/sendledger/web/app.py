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

from sendledger.logs import get_logger
from sendledger.plugin.receipts import CALLBACK_ROUTE
from sendledger.web.callbacks import Callbacks
from sendledger.web.context import Reception
from sendledger.web.health import Readiness, live

NO_ROUTE = "none"
ERRORS_FROM = 400

log = get_logger(__name__)


def build_app(reception: Reception) -> Starlette:
    """Return the application that answers all routes."""
    ready = Readiness(reception).look
    return Starlette(
        routes=[
            Route(CALLBACK_ROUTE, Callbacks(reception).take_in, methods=["POST"]),
            Route("/health", ready),
            Route("/health/ready", ready),
            Route("/health/live", live),
        ],
        middleware=[Middleware(AccessLog)],
        exception_handlers={HTTPException: _bare, Exception: _failed},
    )


async def _bare(_: Request, error: Exception) -> Response:
    """Answer what no route takes with a status and nothing else."""
    assert isinstance(error, HTTPException)
    return Response(status_code=error.status_code, headers=error.headers)


async def _failed(_: Request, _error: Exception) -> Response:
    """Answer for a fault of ours, which the server logs."""
    return Response(status_code=500)


class AccessLog:
    """Logs each request by its route: a path may hold a token."""

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
                _log(scope, message["status"], time.monotonic() - began)
            await send(message)

        await self._app(scope, receive, tell)


def _log(scope: Scope, status: int, seconds: float) -> None:
    route = scope.get("route")
    name = route.path if isinstance(route, Route) else NO_ROUTE
    say = log.info if status >= ERRORS_FROM else log.debug
    say("request", route=name, status=status, took_ms=round(seconds * 1000, 1))
