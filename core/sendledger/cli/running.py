"""What every command that stays has in common: its log, its signals, its last word."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from typing import Annotated

import typer

from sendledger.cli.errors import UsageFault
from sendledger.logs import configure_logs
from sendledger.store.database import DatabaseAway
from sendledger.work.stopping import Stop

COLLECT_EACH = 20_000
"""Objects made and still there before the garbage collector looks for cycles: more than is in flight."""

LogJson = Annotated[bool, typer.Option("--log-json", help="Write the log as JSON lines.")]
LogLevel = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]


def set_up_logs(*, as_json: bool, level: str) -> None:
    """Log as asked for. Raises :class:`UsageFault`."""
    try:
        configure_logs(json=as_json, level=level)
    except ValueError as error:
        raise UsageFault(str(error)) from error


def collect_rarely() -> None:
    """Keep the garbage collector from walking what start-up made, and again and again what is in flight."""
    gc.freeze()
    gc.set_threshold(COLLECT_EACH)


def obey_signals(interrupt: Callable[[], None]) -> None:
    """Let SIGTERM and Ctrl-C interrupt, each time they come."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, interrupt)


def told_if_abandoned(stop: Stop) -> None:
    """Raise ``DatabaseAway`` when results had to be left to the next worker."""
    if stop.abandoned:
        raise DatabaseAway(
            "stopped while the database was away: what was in flight is recorded as unknown by the"
            " next worker"
        )
