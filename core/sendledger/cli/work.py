"""``sendledger work``: one worker process, until it is told to stop or nothing is due."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from sendledger.bootstrap import Desk, open_desk, workshop
from sendledger.cli.check import lost_receipts
from sendledger.cli.errors import UsageFault
from sendledger.cli.exporting import Metrics, address_of, exporting
from sendledger.cli.options import Config, config_path, run
from sendledger.cli.running import (
    LogJson,
    LogLevel,
    Teller,
    collect_rarely,
    obey_signals,
    refuse_idleness,
    set_up_logs,
    told_if_abandoned,
)
from sendledger.cli.text import away, instant
from sendledger.cli.watch import watch
from sendledger.ledger.durations import parse_duration
from sendledger.settings.address import Address
from sendledger.store import views
from sendledger.store.views import BatchCount
from sendledger.work.worker import Drain, Worker

CONNECTIONS_MAX = 12

DrainFlag = Annotated[
    bool,
    typer.Option("--drain", help="End when nothing is due or in flight, and say what is awaited."),
]
Within = Annotated[
    str | None,
    typer.Option(
        "--within",
        metavar="DURATION",
        help="With --drain: also wait for what falls due within this, such as 1h.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(work)


def work(  # noqa: PLR0913 - one parameter an option
    *,
    config: Config = None,
    drain: DrainFlag = False,
    within: Within = None,
    metrics: Metrics = None,
    log_json: LogJson = False,
    log_level: LogLevel = "info",
) -> None:
    """Dispatch what is due, recover what was left, until SIGTERM; what is in flight is finished first.

    A second SIGTERM (or Ctrl-C) waits for nothing more: what is in flight is recorded as unknown.
    """
    until, address = _drain(asked=drain, within=within), address_of(metrics)
    teller = set_up_logs(as_json=log_json, level=log_level)
    run(_work(config_path(config), teller, until, address))


def _drain(*, asked: bool, within: str | None) -> Drain | None:
    if within is None:
        return Drain(within=timedelta(0)) if asked else None
    if not asked:
        raise UsageFault("--within says how long --drain waits; give both, or neither")
    try:
        return Drain(within=parse_duration(within))
    except ValueError as error:
        raise UsageFault(f"--within: {error}") from error


async def _work(config: Path, teller: Teller, drain: Drain | None, address: Address | None) -> None:
    async with open_desk(config, connections_max=CONNECTIONS_MAX) as desk:
        refuse_idleness(desk.plan)
        worker = Worker(workshop(desk))
        collect_rarely()
        obey_signals(worker.interrupt)
        for warning in lost_receipts(desk.plan):
            teller.warn(warning)
        watching = asyncio.create_task(watch(teller, worker.progress))
        try:
            async with exporting(desk, worker.meters, address, teller):
                await worker.run(drain=drain)
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        told_if_abandoned(worker.stop)
        await _report(desk, worker)


async def _report(desk: Desk, worker: Worker) -> None:
    """Print what this worker did and what is still awaited, by when."""
    done = worker.progress
    outcomes = ", ".join(f"{count} {word}" for word, count in sorted(done.outcomes.items()))
    print(f"handed over: {outcomes or 'nothing'}")  # noqa: T201
    if done.recovered:
        print(f"recorded as unknown for another worker: {done.recovered}")  # noqa: T201
    async with desk.database.connection() as connection:
        counts = await views.count_batches(connection, batch=None)
        now = (await desk.database.server()).now
    for line in still_awaited(counts, now):
        print(line)  # noqa: T201
    sys.stdout.flush()


def still_awaited(counts: Sequence[BatchCount], now: datetime) -> list[str]:
    """Return a line for each status and awaited event, with how many rows and the earliest instant."""
    rows: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], datetime] = {}
    for count in counts:
        if count.awaits is None or count.due_first is None:
            continue
        kind = (count.status, count.awaits)
        rows[kind] += count.rows
        first[kind] = min(first.get(kind, count.due_first), count.due_first)
    if not rows:
        return ["nothing is awaited"]
    return [
        f"still awaited: {rows[status, awaits]} {status}, {awaits}, earliest"
        f" {instant(first[status, awaits])} ({away(first[status, awaits], now)})"
        for status, awaits in sorted(rows)
    ]
