"""What is said of each request: its route and its status. A path may hold a token."""

from __future__ import annotations

from sendledger.logs import get_logger, is_debugging

ERRORS_FROM = 400

log = get_logger(__name__)


def log_request(route: str, status: int, seconds: float) -> None:
    """Log a request that was answered: an error is worth a line, all else is for whoever looks closely."""
    if status >= ERRORS_FROM:
        say = log.info
    elif is_debugging():
        say = log.debug
    else:
        return
    say("request", route=route, status=status, took_ms=round(seconds * 1000, 1))
