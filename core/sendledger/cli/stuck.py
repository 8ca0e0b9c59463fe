"""``sendledger stuck``: what should have happened by now and has not, by channel and by what is awaited."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from sendledger.bootstrap import open_desk
from sendledger.cli.console import page, show_table
from sendledger.cli.options import Config, Json, config_path, run
from sendledger.cli.text import away, iso
from sendledger.ledger.durations import format_duration
from sendledger.ledger.words import Awaits
from sendledger.store import scopes, watching
from sendledger.store.watching import OverdueCount

EDGES = (timedelta(days=1), timedelta(hours=1), timedelta(minutes=5))
AGES = ("older", "<1d", "<1h", "<5m")
"""How far beyond the grace: the groups that :data:`EDGES` part, longest first."""

KEY = "oldest"
"""The column of intent keys, which are there to be copied."""

WAITING = frozenset({Awaits.DISPATCH, Awaits.RETRY})
PERSONAL = frozenset({Awaits.DECISION, Awaits.RELEASE})
"""What only a person can end."""

FAULTS: Mapping[str, str] = {
    Awaits.DISPATCH: "never handed over",
    Awaits.RESULT: "handed over, no result",
    Awaits.EVIDENCE: "evidence overdue",
    Awaits.DECISION: "undecided",
    Awaits.RETRY: "not tried again",
    Awaits.RELEASE: "held",
}
ACTIONS: Mapping[str, str] = {
    Awaits.DISPATCH: "is a worker running? start `sendledger work`",
    Awaits.RESULT: "any worker's sweep records it as ambiguous: start `sendledger work`",
    Awaits.EVIDENCE: "any worker's sweep ends the wait: start `sendledger work`",
    Awaits.DECISION: "what do the logs of the relay or provider say? `sendledger explain {key}`",
    Awaits.RETRY: "is a worker running? start `sendledger work`",
    Awaits.RELEASE: "mend the cause, then `sendledger resume CAUSE`: `sendledger explain {key}`",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What one look at the queue showed; ``closed`` has the scopes that are paused or back off."""

    now: datetime
    grace: timedelta
    groups: Sequence[OverdueCount]
    closed: Mapping[str, str]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(stuck)


def stuck(config: Config = None, as_json: Json = False) -> None:  # noqa: FBT002
    """Show what is overdue beyond the policy's grace, what each waits for, and what to do."""
    seen = run(_look(config_path(config)))
    if as_json:
        print(json.dumps(document(seen), indent=2))  # noqa: T201
    else:
        show(page(), seen)


async def _look(config: Path) -> Looked:
    async with open_desk(config) as desk, desk.database.connection() as connection:
        grace = desk.plan.policy.grace
        paused = {row.scope_key: "is paused" for row in await scopes.list_pauses(connection)}
        backing_off = {
            row.scope_key: "backs off" for row in await scopes.list_back_offs(connection)
        }
        return Looked(
            now=(await desk.database.server()).now,
            grace=grace,
            groups=await watching.count_overdue(connection, grace=grace, edges=EDGES),
            closed=backing_off | paused,
        )


def action_of(group: OverdueCount, closed: Mapping[str, str]) -> str:
    """Return what to do about a group: what has closed its channel comes before anything else."""
    if group.awaits in WAITING:
        for scope in ("all", f"channel:{group.channel}"):
            match closed.get(scope):
                case "is paused":
                    return f"{scope} is paused: see `sendledger status`, then `sendledger resume {scope}`"
                case "backs off":
                    return f"{scope} backs off: an outage; a probe opens it again"
    return ACTIONS[group.awaits].format(key=group.intent_key.hex()[:12])


def show(console: Console, seen: Looked) -> None:
    """Print what is stuck for a person: what should go by itself first, then what waits for somebody."""
    if not seen.groups:
        console.print(f"nothing is overdue by more than {format_duration(seen.grace)}")
    for channel, rows in groupby(seen.groups, key=lambda row: row.channel):
        groups = list(rows)
        machine = [row for row in groups if row.awaits not in PERSONAL]
        _show_groups(
            console, f"{channel}: overdue by more than {format_duration(seen.grace)}", machine, seen
        )
        personal = [row for row in groups if row.awaits in PERSONAL]
        _show_groups(console, f"{channel}: waiting for a person", personal, seen)


def _show_groups(
    console: Console, heading: str, groups: Sequence[OverdueCount], seen: Looked
) -> None:
    if not groups:
        return
    console.print(f"[bold]{heading}[/bold]")
    table = Table(box=None, pad_edge=False)
    for name in ("rows", "what", "awaits", "late", "due", KEY, "what to do"):
        table.add_column(
            name,
            justify="right" if name == "rows" else "left",
            overflow="fold",
            no_wrap=name == KEY,
        )
    for group in groups:
        table.add_row(
            str(group.rows),
            FAULTS[group.awaits],
            group.awaits,
            AGES[group.age_group],
            away(group.due_first, seen.now),
            group.intent_key.hex()[:12],
            action_of(group, seen.closed),
        )
    show_table(console, table)


def document(seen: Looked) -> dict[str, Any]:
    """Return what is stuck as JSON; its shape is part of the interface."""
    return {
        "now": iso(seen.now),
        "grace_s": seen.grace.total_seconds(),
        "stuck": [
            {
                "channel": group.channel,
                "awaits": group.awaits,
                "what": FAULTS[group.awaits],
                "late": AGES[group.age_group],
                "person": group.awaits in PERSONAL,
                "deliveries": group.rows,
                "due_first_at": iso(group.due_first),
                "intent_key": group.intent_key.hex(),
                "action": action_of(group, seen.closed),
            }
            for group in seen.groups
        ],
    }
