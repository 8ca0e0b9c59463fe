"""The least that starlette could take receipts in with: a route that reads a form and says thanks.

Prints the port that it listens on.
"""

from __future__ import annotations

import socket

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def take(request: Request) -> Response:
    await request.form()
    return Response(status_code=204)


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(listener.getsockname()[1], flush=True)
    app = Starlette(routes=[Route("/callbacks/{channel}/{token}", take, methods=["POST"])])
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        lifespan="off",
        ws="none",
        log_level="error",
        access_log=False,
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
