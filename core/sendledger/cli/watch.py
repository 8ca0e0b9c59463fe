"""Watching a worker: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio

from rich.live import Live
from rich.table import Table

from sendledger.cli.running import Teller
from sendledger.work.progress import Progress

LIVE_S = 0.25
LINE_S = 10.0
RULES_SHOWN = 6


async def watch(teller: Teller, progress: Progress) -> None:
    """Show *progress* until cancelled; on a terminal as one live table, else a line now and then."""
    if (screen := teller.screen) is not None:
        with Live(console=screen, refresh_per_second=8, get_renderable=lambda: view(progress)):
            await asyncio.Event().wait()
    told = ""
    while True:
        await asyncio.sleep(LINE_S)
        now = line(progress)
        if now != told:
            teller.tell(now)
        told = now


def line(progress: Progress) -> str:
    """Return one plain line of progress."""
    outcomes = ", ".join(f"{count} {word}" for word, count in sorted(progress.outcomes.items()))
    return f"working: {progress.claimed} claimed, {progress.in_flight} in flight; {outcomes or 'no results'}"


def view(progress: Progress) -> Table:
    """Return the live table: outcomes, and the rules that fired most."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_row("claimed", str(progress.claimed))
    table.add_row("in flight", f"{progress.in_flight} (peak {progress.in_flight_peak})")
    for outcome, count in sorted(progress.outcomes.items()):
        table.add_row(outcome, str(count))
    for rule, count in (progress.rules + progress.rulings).most_common(RULES_SHOWN):
        table.add_row(f"[dim]{rule}[/dim]", f"[dim]{count}[/dim]")
    if progress.recovered:
        table.add_row("recorded as unknown", str(progress.recovered))
    return table
