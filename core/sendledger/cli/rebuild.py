"""``sendledger rebuild``: prove that the projection is the fold of the ledger, or write it anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sendledger.bootstrap import open_desk
from sendledger.cli.console import Side
from sendledger.cli.options import Config, Json, config_path, run
from sendledger.journal.verify import Discrepancy, verify

SHOWN_MAX = 100
FOUND = 1
Verify = Annotated[bool, typer.Option("--verify", help="Only compare; write nothing.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(rebuild)


def rebuild(config: Config = None, only: Verify = False, as_json: Json = False) -> None:  # noqa: FBT002
    """Fold the whole ledger anew and compare it with the deliveries; without --verify also mend them.

    Exit code 1 when something is not as the ledger says, or the ledger itself is not whole.
    """
    console = Side()
    intents, rebuilt, found = run(_verify(config_path(config), console, mend=not only))
    if as_json:
        shown = [{"intent_key": d.intent_key, "kind": d.kind, "what": d.what} for d in found]
        print(  # noqa: T201
            json.dumps({"intents": intents, "rebuilt": rebuilt, "discrepancies": shown}, indent=2)
        )
    else:
        _show(intents, rebuilt, found)
    if found:
        raise typer.Exit(FOUND)


async def _verify(
    config: Path, console: Console, *, mend: bool
) -> tuple[int, int, list[Discrepancy]]:
    intents = rebuilt = 0
    found: list[Discrepancy] = []
    async with open_desk(config) as desk:
        with console.status("folding") as progress:
            async for page in verify(
                desk.database, desk.keys.seal_key, rebuild=mend, asked=desk.recorder.asked
            ):
                intents += page.intents
                rebuilt += page.rebuilt
                found += page.discrepancies
                progress.update(f"folding: {intents} intents, {len(found)} discrepancies")
    return intents, rebuilt, found


def _show(intents: int, rebuilt: int, found: list[Discrepancy]) -> None:
    for row in found[:SHOWN_MAX]:
        typer.echo(f"{row.intent_key}: {row.kind}: {row.what}")
    if len(found) > SHOWN_MAX:
        typer.echo(f"... and {len(found) - SHOWN_MAX} more (--json lists all)")
    if found:
        typer.echo(f"{intents} intents folded, {len(found)} discrepancies, {rebuilt} rebuilt")
    else:
        typer.echo(f"{intents} intents folded: every delivery is as its ledger says")
