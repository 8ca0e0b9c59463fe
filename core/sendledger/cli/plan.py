"""``sendledger plan``: a batch file and its recipients become intents, each once."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from sendledger.bootstrap import open_desk
from sendledger.cli.batch import placed, read_attaching, read_columns, read_intake
from sendledger.cli.errors import UsageFault
from sendledger.cli.options import Config, Json, config_path, run
from sendledger.cli.preview import show_preview
from sendledger.cli.progress import watched
from sendledger.cli.recipients import Format, Recipients, open_recipients
from sendledger.cli.rejects import RejectsFile, open_rejects, rejects_path
from sendledger.journal import plan as planning
from sendledger.journal.intake import Intake
from sendledger.journal.plan import Blocks, PlanResult
from sendledger.settings.batch import BatchFile, BatchSettings, load_batch
from sendledger.store.database import Database

REJECTED = 1
COLLECT_EACH = 1_000_000
"""Objects made and still there before the garbage collector looks for cycles: more than two chunks hold."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(plan)


def plan(  # noqa: PLR0913 - the options of the command
    batch: Annotated[
        Path, typer.Argument(metavar="BATCH.yaml", help="What is sent, and on whose authority.")
    ],
    recipients: Annotated[
        Path,
        typer.Option(
            "--recipients", "-r", help="CSV or JSON lines in UTF-8; - reads standard input."
        ),
    ],
    *,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="Of the recipients; else by name.", show_default=False),
    ] = None,
    rejects: Annotated[
        Path | None,
        typer.Option(help="Where rejected rows go; else FILE.rejects.csv.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do all of it, keep none.")] = False,
    preview: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Write the first N messages, plan none.", show_default=False
        ),
    ] = None,
    preview_dir: Annotated[Path, typer.Option(help="Where the preview goes.")] = Path("preview"),
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Plan a batch: one intent for each recipient. Planning the same again adds nothing.

    Exit code 0: everybody is planned. 1: some rows were rejected, the rest is planned. 2: the batch
    itself is at fault, and nothing is planned.
    """
    if preview is not None and as_json:
        raise UsageFault("a preview is for a person to look at; leave out --json")
    read = load_batch(batch)
    with open_recipients(recipients, form) as opened:
        if preview is None:
            target = rejects or rejects_path(recipients)
            result = run(_plan(config_path(config), read, opened, target, dry_run=dry_run))
            tell = _document if as_json else _summary
            typer.echo(tell(read.settings, result, target, dry_run=dry_run))
            rejected = result.rejected
        else:
            rejected = run(show_preview(config_path(config), read, opened, preview_dir, preview))
    if rejected:
        raise typer.Exit(REJECTED)


async def _plan(
    config: Path, batch: BatchFile, recipients: Recipients, target: Path, *, dry_run: bool
) -> PlanResult:
    async with open_desk(config) as desk:
        intake = read_intake(batch, desk.host, desk.keys)
        attaching = read_attaching(batch, desk.plan)
        columns = read_columns(batch, intake, nested=recipients.nested, beside=attaching.names)
        watching = watched(
            attaching.attached_blocks(recipients.blocks(columns)),
            slow=bool(batch.settings.attachments),
            total_bytes=recipients.lines.size_bytes,
            bytes_read=lambda: recipients.lines.bytes_read,
        )
        with (
            placed(batch),
            open_rejects(target, columns.names()) as rejects,
            watching as blocks,
            _rarely_collecting(),
        ):
            return await _keep(desk.database, intake, blocks, rejects, dry_run=dry_run)


async def _keep(
    database: Database,
    intake: Intake,
    blocks: Blocks,
    rejects: RejectsFile,
    *,
    dry_run: bool,
) -> PlanResult:
    async with database.connection() as connection, connection.transaction(force_rollback=dry_run):
        result = await planning.plan_blocks(connection, intake, blocks, on_reject=rejects.add)
        # Before the commit: nothing is planned when it cannot be told who was left out.
        rejects.publish()
    return result


@contextmanager
def _rarely_collecting() -> Iterator[None]:
    """Keep the garbage collector from walking what starting up made, and the rows of each chunk."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(COLLECT_EACH)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _summary(_: BatchSettings, result: PlanResult, rejects: Path, *, dry_run: bool) -> str:
    counts = [f"planned {result.added}", f"already planned {result.known}"]
    if result.repeated:
        counts.append(f"repeated in the file {result.repeated}")
    counts.append(f"rejected {result.rejected}" + (f" (see {rejects})" if result.rejected else ""))
    kept = "; dry run, nothing was kept" if dry_run else ""
    return ", ".join(counts) + kept


def _document(batch: BatchSettings, result: PlanResult, rejects: Path, *, dry_run: bool) -> str:
    return json.dumps(
        {
            "batch": f"{batch.report}/{batch.content_revision}/{batch.channel}",
            "planned": result.added,
            "known": result.known,
            "repeated": result.repeated,
            "rejected": result.rejected,
            "rejects_file": str(rejects) if result.rejected else None,
            "dry_run": dry_run,
        }
    )
