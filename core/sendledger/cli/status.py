"""``sendledger status``: counts derived from the rows, what is awaited, and what is closed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sendledger.bootstrap import open_desk
from sendledger.cli.console import page, show_table
from sendledger.cli.errors import UsageFault
from sendledger.cli.options import Config, Json, config_path, run
from sendledger.cli.text import away, counted, instant, iso
from sendledger.store import scopes, side_effects, views, workers
from sendledger.store.scopes import BackOff, Pause
from sendledger.store.side_effects import Task
from sendledger.store.views import BatchCount
from sendledger.store.workers import WorkerRow

TASKS_MAX = 50
SILENT = timedelta(seconds=35)
"""A worker tells of itself every 10 s; one that missed three times is probably gone."""

Batch = Annotated[
    str | None,
    typer.Argument(
        metavar="BATCH", help="REPORT, REPORT/REVISION, REPORT/REVISION/CHANNEL or a batch number."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What one look at the ledger showed."""

    now: datetime
    counts: Sequence[BatchCount]
    pauses: Sequence[Pause]
    back_offs: Sequence[BackOff]
    tasks: Sequence[Task]
    workers: Sequence[WorkerRow]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(status)


def status(batch: Batch = None, config: Config = None, as_json: Json = False) -> None:  # noqa: FBT002
    """Show how many deliveries of each batch stand where, what they await and by when."""
    seen = run(_look(config_path(config), batch))
    if batch is not None and not seen.counts:
        raise UsageFault("no such batch; `sendledger status` lists them all")
    if as_json:
        print(json.dumps(document(seen), indent=2))  # noqa: T201
    else:
        show(page(), seen)


async def _look(config: Path, batch: str | None) -> Overview:
    async with open_desk(config) as desk, desk.database.connection() as connection:
        return Overview(
            now=(await desk.database.server()).now,
            counts=await views.count_batches(connection, batch=batch),
            pauses=await scopes.list_pauses(connection),
            back_offs=await scopes.list_back_offs(connection),
            tasks=await side_effects.list_tasks(connection, rows_max=TASKS_MAX),
            workers=await workers.list_workers(connection),
        )


def show(console: Console, seen: Overview) -> None:
    """Print an overview for a person."""
    if not seen.counts:
        console.print("nothing is planned yet")
    for _, group in groupby(seen.counts, key=lambda row: row.batch_id):
        _show_batch(console, list(group), seen.now)
    for pause in seen.pauses:
        console.print(
            f"[red]paused[/red] {escape(pause.scope_key)} since {instant(pause.began_at)}: {pause.rule}"
        )
        # On a line of its own and never broken: it is there to be copied.
        console.print(f"  sendledger resume {escape(shlex.quote(pause.scope_key))}", soft_wrap=True)
    for closed in seen.back_offs:
        console.print(
            f"[yellow]backing off[/yellow] {escape(closed.scope_key)} since {instant(closed.began_at)}:"
            f" {closed.rule}, next probe due {away(closed.probe_at, seen.now)}"
        )
    _show_tasks(console, seen.tasks)
    for worker in seen.workers:
        _show_worker(console, worker, seen.now)


def _show_worker(console: Console, worker: WorkerRow, now: datetime) -> None:
    silent = worker.silent_for > SILENT
    heard = f"[yellow]silent, seen {away(worker.seen_at, now)}[/yellow]" if silent else "at work"
    console.print(
        f"worker {worker.host} pid {worker.pid} (version {worker.version}): {heard},"
        f" {worker.in_flight} in flight, {', '.join(worker.channels)},"
        f" since {instant(worker.started_at)}"
    )


def _show_batch(console: Console, rows: Sequence[BatchCount], now: datetime) -> None:
    head = rows[0]
    total = sum(row.rows for row in rows)
    console.print(
        f"[bold]{escape(head.report)} / {escape(head.content_revision)} / {head.channel}[/bold]"
        f"  {counted(total, 'delivery', 'deliveries')}, authorised by {escape(head.authorized_by)}"
        f" ({escape(head.authorization_id)})"
    )
    table = Table(box=None, pad_edge=False)
    for heading in ("", "status", "awaits", "earliest due", "due now"):
        table.add_column(
            heading, justify="right" if heading in {"", "due now"} else "left", overflow="fold"
        )
    for row in rows:
        contradicted = " (contradicted)" if row.contradicted else ""
        due = "-" if row.due_first is None else away(row.due_first, now)
        awaits = row.awaits or ("-" if _terminal(row.status) else "nothing (settled)")
        table.add_row(
            str(row.rows), row.status + contradicted, awaits, due, str(row.rows_due or "")
        )
    show_table(console, table)


def _terminal(status: str) -> bool:
    return status in {"delivered", "failed", "suppressed"}


def _show_tasks(console: Console, tasks: Sequence[Task]) -> None:
    if not tasks:
        return
    console.print(f"[bold]{counted(len(tasks), 'open task')}[/bold]")
    for task in tasks:
        example = f", e.g. {task.intent_key.hex()[:12]}" if task.intent_key else ""
        console.print(f"  {task.kind}: {escape(task.cause)} in {escape(task.scope_key)}{example}")


def document(seen: Overview) -> dict[str, Any]:
    """Return an overview as JSON; its shape is part of the interface."""
    return {
        "now": iso(seen.now),
        "batches": [
            _batch(list(group)) for _, group in groupby(seen.counts, key=lambda row: row.batch_id)
        ],
        "pauses": [
            {"scope": row.scope_key, "rule": row.rule, "since": iso(row.began_at)}
            for row in seen.pauses
        ],
        "back_offs": [
            {
                "scope": row.scope_key,
                "rule": row.rule,
                "since": iso(row.began_at),
                "next_probe_at": iso(row.probe_at),
            }
            for row in seen.back_offs
        ],
        "tasks": [
            {
                "kind": row.kind,
                "cause": row.cause,
                "scope": row.scope_key,
                "opened_at": iso(row.opened_at),
                "intent_key": row.intent_key.hex() if row.intent_key else None,
            }
            for row in seen.tasks
        ],
        "workers": [
            {
                "host": row.host,
                "pid": row.pid,
                "version": row.version,
                "started_at": iso(row.started_at),
                "seen_at": iso(row.seen_at),
                "in_flight": row.in_flight,
                "channels": row.channels,
            }
            for row in seen.workers
        ],
    }


def _batch(rows: Sequence[BatchCount]) -> dict[str, Any]:
    head = rows[0]
    return {
        "report": head.report,
        "content_revision": head.content_revision,
        "channel": head.channel,
        "purpose": head.purpose,
        "authorization": {
            "id": head.authorization_id,
            "by": head.authorized_by,
            "at": iso(head.authorized_at),
        },
        "planned_at": iso(head.planned_at),
        "deliveries": sum(row.rows for row in rows),
        "counts": [
            {
                "status": row.status,
                "awaits": row.awaits,
                "contradicted": row.contradicted,
                "deliveries": row.rows,
                "due_first_at": iso(row.due_first),
                "due_now": row.rows_due,
            }
            for row in rows
        ],
    }
