"""``sendledger plan``: a batch file and its recipients become intents, each once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from sendledger.bootstrap import open_desk
from sendledger.cli.batch import read_columns, read_intake
from sendledger.cli.errors import UsageFault
from sendledger.cli.options import Config, Json, config_path, run
from sendledger.cli.progress import watched
from sendledger.cli.recipients import open_recipients
from sendledger.cli.rejects import RejectsFile, open_rejects, rejects_path
from sendledger.journal import plan as planning
from sendledger.journal.conflicts import PlanConflict
from sendledger.journal.intake import Intake
from sendledger.journal.plan import Entry, PlanResult
from sendledger.settings.batch import BatchFile, BatchSettings, load_batch
from sendledger.store.database import Database

REJECTED = 1


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(plan)


def plan(  # noqa: PLR0913 - the options of the command
    batch: Annotated[
        Path, typer.Argument(metavar="BATCH.yaml", help="What is sent, and on whose authority.")
    ],
    recipients: Annotated[
        Path, typer.Option("--recipients", "-r", help="CSV in UTF-8, with a header.")
    ],
    *,
    rejects: Annotated[
        Path | None,
        typer.Option(help="Where rejected rows go; else FILE.rejects.csv.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do all of it, keep none.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Plan a batch: one intent for each recipient. Planning the same again adds nothing.

    Exit code 0: everybody is planned. 1: some rows were rejected, the rest is planned. 2: the batch
    itself is at fault, and nothing is planned.
    """
    read = load_batch(batch)
    target = rejects or rejects_path(recipients)
    result = run(_plan(config_path(config), read, recipients, target, dry_run=dry_run))
    written = target if result.rejected else None
    if as_json:
        typer.echo(json.dumps(_document(read.settings, result, written, dry_run=dry_run)))
    else:
        typer.echo(_summary(result, written, dry_run=dry_run))
    if result.rejected:
        raise typer.Exit(REJECTED)


async def _plan(
    config: Path, batch: BatchFile, recipients: Path, target: Path, *, dry_run: bool
) -> PlanResult:
    with open_recipients(recipients) as file:
        async with open_desk(config) as desk:
            intake = read_intake(batch, desk.host, desk.keys)
            columns = read_columns(batch, intake)
            watching = watched(
                file.entries(columns),
                total_bytes=file.size_bytes,
                bytes_read=lambda: file.bytes_read,
            )
            with open_rejects(target, columns.names()) as rejects, watching as entries:
                try:
                    return await _keep(desk.database, intake, entries, rejects, dry_run=dry_run)
                except PlanConflict as conflict:
                    raise UsageFault(f"{batch.file}: {conflict}") from None


async def _keep(
    database: Database,
    intake: Intake,
    entries: Iterator[Entry],
    rejects: RejectsFile,
    *,
    dry_run: bool,
) -> PlanResult:
    async with database.connection() as connection, connection.transaction(force_rollback=dry_run):
        result = await planning.plan(connection, intake, entries, on_reject=rejects.add)
        # Before the commit: nothing is planned when it cannot be told who was left out.
        rejects.publish()
    return result


def _summary(result: PlanResult, rejects: Path | None, *, dry_run: bool) -> str:
    counts = [f"planned {result.added}", f"already planned {result.known}"]
    if result.repeated:
        counts.append(f"repeated in the file {result.repeated}")
    counts.append(f"rejected {result.rejected}" + (f" (see {rejects})" if rejects else ""))
    kept = "; dry run, nothing was kept" if dry_run else ""
    return ", ".join(counts) + kept


def _document(
    batch: BatchSettings, result: PlanResult, rejects: Path | None, *, dry_run: bool
) -> dict[str, object]:
    return {
        "batch": f"{batch.report}/{batch.content_revision}/{batch.channel}",
        "planned": result.added,
        "known": result.known,
        "repeated": result.repeated,
        "rejected": result.rejected,
        "rejects_file": None if rejects is None else str(rejects),
        "dry_run": dry_run,
    }
