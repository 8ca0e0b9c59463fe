"""``sendledger tasks``: what a person must decide or mend, and closing one that is done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
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
from sendledger.cli.options import Config, Json, config_path, run, who_asks
from sendledger.cli.text import away, iso
from sendledger.journal.tasks import close_task
from sendledger.store import side_effects
from sendledger.store.side_effects import ClosedTask, Task

TASKS_MAX = 1000
TaskId = Annotated[int, typer.Argument(metavar="ID", help="The task's number, as listed.", min=1)]

ACTIONS: Mapping[str, str] = {
    "failed": "reach them another way, or mend what the rule names and plan them anew,"
    " under a new content_revision",
    "unknown": "what do the logs of the relay or provider say? A Message-ID begins with the intent key",
    "contradicted": "two answers that cannot both be true: `sendledger explain` shows them",
    "held": "mend the cause, then `sendledger resume CAUSE`",
    "paused": "mend what the rule names, then `sendledger resume SCOPE`",
    "back-off": "the outage lasts: is the relay up? It closes by itself when a probe succeeds",
    "commits-lost": "the database forgot commits: stop sending and restore before anything else",
    "receipts-refused": "is the provider's secret right, and is http.public_url what it calls?",
}
STANDING = frozenset({"paused", "held"})

app = typer.Typer(help="Show what a person must decide or mend; close what is done.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """The open tasks, oldest first; ``more`` tells that there are others."""

    now: datetime
    tasks: Sequence[Task]
    more: bool


@app.callback(invoke_without_command=True)
def tasks(context: typer.Context, config: Config = None, as_json: Json = False) -> None:  # noqa: FBT002
    """Show what a person must decide or mend, grouped by kind; close what is done."""
    if context.invoked_subcommand is not None:
        context.obj = config
        return
    seen = run(_look(config_path(config)))
    if as_json:
        print(json.dumps(document(seen), indent=2))  # noqa: T201
    else:
        show(page(), seen)


@app.command()
def close(context: typer.Context, task_id: TaskId, config: Config = None) -> None:
    """Close one task: it is done, or not worth doing. Who closed it is recorded."""
    closed = run(_close(config_path(config or context.obj), task_id))
    if closed is None:
        raise UsageFault(f"task {task_id} is not open; `sendledger tasks` lists those that are")
    standing = (
        "; what it names stays closed until `sendledger resume`" if closed.kind in STANDING else ""
    )
    typer.echo(f"closed: {closed.kind}, {closed.cause} in {closed.scope_key}{standing}")


async def _look(config: Path) -> Open:
    async with open_desk(config) as desk, desk.database.connection() as connection:
        found = await side_effects.list_tasks(connection, rows_max=TASKS_MAX + 1)
        return Open(
            now=(await desk.database.server()).now,
            tasks=found[:TASKS_MAX],
            more=len(found) > TASKS_MAX,
        )


async def _close(config: Path, task_id: int) -> ClosedTask | None:
    async with open_desk(config) as desk:
        return await close_task(desk.database, task_id, actor=who_asks())


def show(console: Console, seen: Open) -> None:
    """Print the open tasks for a person."""
    if not seen.tasks:
        console.print("no task is open")
    for kind, group in groupby(by_kind(seen.tasks), key=lambda task: task.kind):
        _show_kind(console, kind, list(group), seen.now)
    if seen.more:
        console.print(f"there are more; these are the oldest {TASKS_MAX}")


def by_kind(found: Sequence[Task]) -> list[Task]:
    """Return tasks of a kind together, the kinds in a fixed order, each oldest first."""
    return sorted(found, key=lambda task: task.kind)


def _show_kind(console: Console, kind: str, found: Sequence[Task], now: datetime) -> None:
    console.print(f"[bold]{len(found)} {kind}[/bold]: {ACTIONS.get(kind, 'see the ledger')}")
    table = Table(box=None, pad_edge=False, show_header=False)
    for name in ("number", "cause", "scope", "age", "key"):
        table.add_column(overflow="fold", no_wrap=name in {"number", "key"})
    for task in found:
        example = task.intent_key.hex()[:12] if task.intent_key else ""
        table.add_row(
            str(task.task_id),
            escape(task.cause),
            escape(task.scope_key),
            away(task.opened_at, now),
            example,
        )
    show_table(console, table)


def document(seen: Open) -> dict[str, Any]:
    """Return the open tasks as JSON; its shape is part of the interface."""
    return {
        "now": iso(seen.now),
        "more": seen.more,
        "tasks": [
            {
                "id": task.task_id,
                "kind": task.kind,
                "cause": task.cause,
                "scope": task.scope_key,
                "opened_at": iso(task.opened_at),
                "intent_key": task.intent_key.hex() if task.intent_key else None,
            }
            for task in by_kind(seen.tasks)
        ],
    }
