"""The command's frame: options that all share, and the one place where errors become sentences."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from sendledger.cli import (
    check,
    database,
    explain,
    pauses,
    plan,
    rebuild,
    serve,
    status,
    stuck,
    tasks,
    template,
    work,
)
from sendledger.cli.errors import UsageFault
from sendledger.content import TemplateError
from sendledger.keys import KeyRingError
from sendledger.plugin.faults import PluginFault
from sendledger.postgres import PostgresError
from sendledger.settings.problems import SettingsError
from sendledger.store.database import DatabaseAway, DatabaseRefused
from sendledger.store.schema import SchemaError

FAULT = 2

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Send, and be able to say what was sent to whom, on whose authority, and what is known.",
)
app.add_typer(database.app, name="db")
app.add_typer(tasks.app, name="tasks")
app.add_typer(template.app, name="template")
for command in (check, plan, work, serve, status, stuck, explain, rebuild, pauses):
    command.register(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; a fault that the user can mend is printed as sentences, exit code 2."""
    try:
        app(args=None if arguments is None else list(arguments))
    except UsageFault as fault:
        _tell(fault.problems)
    except SettingsError as error:
        _tell(str(error).splitlines())
    except (
        KeyRingError,
        PostgresError,
        PluginFault,
        DatabaseRefused,
        DatabaseAway,
        SchemaError,
        TemplateError,
    ) as error:
        _tell([str(error)])


def _tell(problems: Sequence[str]) -> None:
    for sentence in problems:
        print(f"sendledger: {sentence}", file=sys.stderr)  # noqa: T201 - this is the interface
    sys.exit(FAULT)
