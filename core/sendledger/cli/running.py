"""What every command that stays has in common: its log, its signals, its last word."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer
from rich.markup import escape

from sendledger.bootstrap import Plan
from sendledger.cli.console import Side
from sendledger.cli.errors import UsageFault
from sendledger.logs import configure_logs, get_logger
from sendledger.store.database import DatabaseAway
from sendledger.work.stopping import Stop

COLLECT_EACH = 20_000
"""Objects made and still there before the garbage collector looks for cycles: more than is in flight."""

LogJson = Annotated[bool, typer.Option("--log-json", help="Write the log as JSON lines.")]
LogLevel = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]


class Teller:
    """Tells on standard error what the process is about: in words, or as events of a JSON log.

    ``screen`` is the terminal that a live view may be drawn on, if there is one.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._console = None if as_json else Side()
        self._log = get_logger(__name__)

    @property
    def screen(self) -> Side | None:
        """The terminal, unless there is none or lines of JSON go there."""
        return self._console if self._console is not None and self._console.is_terminal else None

    def tell(self, sentence: str) -> None:
        """Say that all is well so far."""
        self._say("", sentence)

    def warn(self, sentence: str) -> None:
        """Say what will not do what is meant."""
        self._say("[yellow]warning[/yellow] ", sentence)

    def _say(self, mark: str, sentence: str) -> None:
        if self._console is None:
            (self._log.warning if mark else self._log.info)(sentence)
            return
        with suppress(OSError):  # as with the log: nobody stops working because nobody can be told
            self._console.print(f"{mark}{escape(sentence)}", soft_wrap=True)


def set_up_logs(*, as_json: bool, level: str) -> Teller:
    """Log as asked for, and return who tells the rest. Raises :class:`UsageFault`."""
    try:
        configure_logs(json=as_json, level=level.lower())
    except ValueError as error:
        raise UsageFault(str(error)) from error
    return Teller(as_json=as_json)


def refuse_idleness(plan: Plan) -> None:
    """Raise :class:`UsageFault` when there is no channel: a process would end at once, and look done."""
    if not plan.channels:
        raise UsageFault(
            "no channel is configured, so there is nothing to work; add one to channels"
        )


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
