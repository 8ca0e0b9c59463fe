"""``sendledger template``: content before anybody is planned, checked and looked at."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sendledger.bootstrap import Plan, key_ring, read_plan
from sendledger.cli.batch import placed, read_attaching, read_columns, read_intake
from sendledger.cli.options import Config, Json, config_path, run
from sendledger.cli.preview import show_preview, tell_reject
from sendledger.cli.recipients import Format, Recipients, open_recipients
from sendledger.cli.text import counted
from sendledger.journal.batch import Reject
from sendledger.journal.intake import Intake
from sendledger.journal.plan import singly
from sendledger.settings.batch import BatchFile, load_batch

REJECTED = 1
TOLD_MAX = 20

app = typer.Typer(no_args_is_help=True, help="Look at content before anybody is planned.")

BatchPath = Annotated[Path, typer.Argument(metavar="BATCH.yaml", help="What would be sent.")]
Form = Annotated[
    Format | None,
    typer.Option("--format", help="Of the recipients; else by name.", show_default=False),
]
RECIPIENTS = "CSV or JSON lines in UTF-8; - reads standard input."


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """How many rows were read, and for how many of them no message could be written."""

    read: int
    rejected: int


@app.command()
def check(
    batch: BatchPath,
    *,
    recipients: Annotated[
        Path | None, typer.Option("--recipients", "-r", help=RECIPIENTS, show_default=False)
    ] = None,
    form: Form = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Check content as planning does: its templates, its settings, and with --recipients every row.

    No database is asked. Exit code 0: all could be planned. 1: some rows would be rejected. 2: the
    batch is at fault.
    """
    read = load_batch(batch)
    plan = read_plan(config_path(config))
    intake = read_intake(read, plan.host, key_ring(plan.settings))
    if recipients is None:
        read_columns(read, intake, nested=True)
        rows = None
    else:
        with open_recipients(recipients, form) as opened:
            rows = run(_check_rows(plan, read, intake, opened))
    typer.echo(json.dumps(_document(intake, rows)) if as_json else _summary(read, intake, rows))
    if rows is not None and rows.rejected:
        raise typer.Exit(REJECTED)


@app.command()
def preview(  # noqa: PLR0913 - the options of the command
    batch: BatchPath,
    *,
    recipients: Annotated[Path, typer.Option("--recipients", "-r", help=RECIPIENTS)],
    out: Annotated[Path, typer.Option(help="Where the messages go.")] = Path("preview"),
    messages: Annotated[
        int, typer.Option("--messages", "-n", metavar="N", min=1, help="How many are written.")
    ] = 3,
    form: Form = None,
    config: Config = None,
) -> None:
    """Write the first messages as they would leave, but for token, date and signature; plan nothing.

    For line 2 of the recipients: line-000002.eml, and its text and HTML beside it to open by themselves.
    """
    read = load_batch(batch)
    with open_recipients(recipients, form) as opened:
        rejected = run(show_preview(config_path(config), read, opened, out, messages))
    if rejected:
        raise typer.Exit(REJECTED)


async def _check_rows(plan: Plan, batch: BatchFile, intake: Intake, recipients: Recipients) -> Rows:
    """Write every row's message once and tell the first that cannot be."""
    attaching = read_attaching(batch, plan)
    columns = read_columns(batch, intake, nested=recipients.nested, beside=attaching.names)
    read = rejected = 0
    with placed(batch):
        async for entry in attaching.attached(singly(recipients.blocks(columns))):
            read += 1
            found = entry if isinstance(entry, Reject) else intake.read(entry)
            if isinstance(found, Reject):
                rejected += 1
                if rejected <= TOLD_MAX:
                    tell_reject(columns, found)
    return Rows(read=read, rejected=rejected)


def _summary(batch: BatchFile, intake: Intake, rows: Rows | None) -> str:
    made = [name for name in intake.batch.parts if name not in batch.settings.content.parts]
    said = [
        f"{batch.file}: {', '.join(intake.batch.parts)} can be sent on {intake.batch.channel}"
        + (f" ({' and '.join(made)} made of what was written)" if made else ""),
        f"template revision {intake.content.revision_hex}",
        f"shows {', '.join(intake.names) or 'no variables'}",
    ]
    if rows is not None:
        said.append(f"{counted(rows.read, 'row')}, {rows.rejected} would be rejected")
    return "\n".join(said)


def _document(intake: Intake, rows: Rows | None) -> dict[str, object]:
    return {
        "channel": intake.batch.channel,
        "template_revision": intake.content.revision_hex,
        "parts": sorted(intake.batch.parts),
        "made_of": sorted(intake.authored),
        "settings": dict(intake.batch.settings),
        "variables": list(intake.names),
        "rows": None if rows is None else rows.read,
        "rejected": None if rows is None else rows.rejected,
    }
