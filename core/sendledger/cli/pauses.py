"""``sendledger pause`` and ``resume``: close a scope by hand, and open it again."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated

import typer

from sendledger.bootstrap import open_desk
from sendledger.cli.errors import UsageFault
from sendledger.cli.options import Config, config_path, run
from sendledger.journal import scopes

Scope = Annotated[
    str,
    typer.Argument(
        metavar="SCOPE",
        help="all, channel:NAME, batch:REPORT/REVISION/CHANNEL, purpose:NAME or sender:CHANNEL/ADDRESS;"
        " resume also takes the cause of held rows, such as policy.poison.",
    ),
]
_SCOPES = ("channel:", "batch:", "purpose:", "sender:")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(pause)
    app.command()(resume)


def pause(scope: Scope, config: Config = None) -> None:
    """Stop submissions in a scope on every worker; evidence keeps flowing."""
    if scope != "all" and not scope.startswith(_SCOPES):
        raise UsageFault(f"no such scope; write all, or one of {', '.join(_SCOPES)} with a name")
    changed = run(_pause(config_path(config), scope))
    typer.echo("paused" if changed else "was paused already")


def resume(scope: Scope, config: Config = None) -> None:
    """Open a paused scope and release the rows held under it."""
    released = run(_resume(config_path(config), scope))
    if released is None:
        raise UsageFault("nothing is paused or held under that name; see sendledger status")
    typer.echo(f"resumed; {released} rows released")


async def _pause(config: Path, scope: str) -> bool:
    async with open_desk(config) as desk:
        return await scopes.pause(desk.database, scope, actor=getpass.getuser())


async def _resume(config: Path, scope: str) -> int | None:
    async with open_desk(config) as desk:
        return await scopes.resume(
            desk.recorder, scope, channels=desk.plan.channels, actor=getpass.getuser()
        )
