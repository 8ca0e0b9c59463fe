"""Options that several commands share."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from sendledger.cli.errors import UsageFault

ENVIRONMENT = "SENDLEDGER_CONFIG"
BESIDE = "sendledger.yaml"

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help=f"Settings file; else ${ENVIRONMENT}, else ./{BESIDE}.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

Result = TypeVar("Result")


def config_path(given: Path | None) -> Path:
    """Return the settings file: as given, from the environment, or in the working directory.

    A missing configuration is an error, never a fresh, empty ledger. Raises :class:`UsageFault`.
    """
    if given is not None:
        return given
    if named := os.environ.get(ENVIRONMENT):
        return Path(named)
    if Path(BESIDE).exists():
        return Path(BESIDE)
    raise UsageFault(
        f"no settings: there is no {BESIDE} here and {ENVIRONMENT} is not set;"
        " name a file with --config"
    )


def who_asks() -> str:
    """Return the name of this user for the record; of one without a name, as in a container, its number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run *main* on the fastest event loop that is installed."""
    try:
        import uvloop  # noqa: PLC0415 - does not install everywhere
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)
