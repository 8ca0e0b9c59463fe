"""The door that Prometheus knocks at: one small HTTP server in threads of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from sendledger.logs import get_logger
from sendledger.settings.address import Address

PATHS = ("/", "/metrics")

log = get_logger(__name__)


class AddressRefused(Exception):  # noqa: N818 - a refusal is the word for it
    """Metrics cannot be served there; says why and what to do."""


class _Server(ThreadingTCPServer):
    """Strictly private: a thread to a request; none of them keeps the process alive."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        """Log that a scrape failed, most often because its peer went away; others are answered."""
        log.warning("scrape failed", exc_info=True)  # noqa: LOG014 - it is being handled


class _ServerOnSix(_Server):
    """Strictly private: the same on IPv6."""

    address_family = socket.AF_INET6


@contextmanager
def serving(registry: CollectorRegistry, address: Address) -> Iterator[Address]:
    """Serve *registry* until the block ends; gives the address with the port that was taken.

    Raises :class:`AddressRefused`.
    """
    server = _listen(registry, address)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield Address(host=address.host, port=server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _listen(registry: CollectorRegistry, address: Address) -> _Server:
    try:
        [found, *_] = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        kind = _ServerOnSix if found[0] == socket.AF_INET6 else _Server
        return kind((address.host, address.port), _answering(registry))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise AddressRefused(
            f"metrics cannot be served at {address}: {reason.lower()}; end what listens there, or name"
            " another address with --metrics"
        ) from error


def _answering(registry: CollectorRegistry) -> type[BaseHTTPRequestHandler]:
    """Return what answers a request with everything in *registry*."""

    class Answer(BaseHTTPRequestHandler):
        # A peer that says nothing must not hold a thread for ever.
        timeout = 10
        server_version = "sendledger"
        sys_version = ""

        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in PATHS:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            body = encode(registry)
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            """Log nothing: a scrape every few seconds is no news."""

    return Answer
