"""The least that could take receipts in: a route that reads a form and says thanks. Keeps nothing.

Prints the port that it listens on.
"""

from __future__ import annotations

import socket
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def take(request: Request) -> Response:
    parse_qsl((await request.body()).decode(), keep_blank_values=True)
    return Response(status_code=204)


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    app = Starlette(routes=[Route("/callbacks/{channel}/{token}", take, methods=["POST"])])
    config = uvicorn.Config(app, lifespan="off", ws="none", log_level="error", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
