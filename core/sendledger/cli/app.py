"""The command's frame: options that all share, and the one place where errors become sentences."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from sendledger import __version__
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
from sendledger.cli.streams import (
    discard_output,
    ending_tidily,
    flush_output,
    is_of_output,
    keep_streams,
)
from sendledger.content import TemplateError
from sendledger.keys import KeyRingError
from sendledger.logs import configure_logs, describe_exception
from sendledger.plugin.faults import PluginFault
from sendledger.postgres import PostgresError
from sendledger.settings.problems import SettingsError
from sendledger.store.database import DatabaseAway, DatabaseError, DatabaseRefused
from sendledger.store.schema import SchemaError

UNHEARD = 1
FAULT = 2
BUG = 70

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.add_typer(database.app, name="db")
app.add_typer(tasks.app, name="tasks")
app.add_typer(template.app, name="template")
for command in (check, plan, work, serve, status, stuck, explain, rebuild, pauses):
    command.register(app)


def _tell_version(asked: bool) -> None:  # noqa: FBT001 - how a flag calls back
    if asked:
        typer.echo(f"sendledger {__version__}")
        raise typer.Exit


@app.callback()
def sendledger(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Send, and be able to say what was sent to whom, on whose authority, and what is known."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; a fault that the user can mend is printed as sentences, exit code 2.

    Whoever closes the pipe before the end has read enough: exit code 1, and no word about it. An error of
    ours is told without its text, which may hold anything, exit code 70; Python's development mode shows it.
    """
    keep_streams()
    configure_logs(json=False, level="info")
    try:
        with ending_tidily():
            _run(arguments)
    except BrokenPipeError:
        discard_output()
        sys.exit(UNHEARD)
    except UnicodeEncodeError:
        _tell([_not_encoded()])
    except Exception as error:
        if isinstance(error, OSError) and is_of_output(error):
            discard_output()
            reason = (error.strerror or "unknown error").lower()
            _tell([f"the output cannot be written ({reason}); choose another place for it"])
        if sys.flags.dev_mode:
            raise
        _tell([_unforeseen(error)], code=BUG)


def _unforeseen(error: Exception) -> str:
    if isinstance(error, DatabaseError):
        remedy = "does its role have every right on the schema sendledger, which nobody changed?"
        return f"the database refuses a statement ({describe_exception(error)}); {remedy}"
    return f"this should not happen ({describe_exception(error)}); please report it"


def _run(arguments: Sequence[str] | None) -> None:
    try:
        _command(arguments)
    finally:
        flush_output()


def _not_encoded() -> str:
    return (
        f"a text on the command line cannot be read in this locale ({sys.getfilesystemencoding()});"
        " set LC_ALL to one with UTF-8, such as C.UTF-8"
    )


def _command(arguments: Sequence[str] | None) -> None:
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


def _tell(problems: Sequence[str], *, code: int = FAULT) -> NoReturn:
    for sentence in problems:
        print(f"sendledger: {sentence}", file=sys.stderr)  # noqa: T201 - this is the interface
    sys.exit(code)
