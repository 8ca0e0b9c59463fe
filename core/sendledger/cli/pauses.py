"""``sendledger pause`` and ``resume``: close a scope by hand, and open it again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from sendledger.bootstrap import Desk, open_desk
from sendledger.cli.errors import UsageFault
from sendledger.cli.options import Config, config_path, run, who_asks
from sendledger.cli.text import counted
from sendledger.journal import scopes
from sendledger.store.scopes import scope_planned

Scope = Annotated[
    str,
    typer.Argument(
        metavar="SCOPE",
        help="all, channel:NAME, batch:REPORT/REVISION/CHANNEL, purpose:NAME or sender:CHANNEL/ADDRESS;"
        " resume also takes the cause of held rows, such as policy.poison.",
    ),
]
_SCOPES = re.compile(r"all|channel:.+|batch:.+/.+/.+|purpose:.+|sender:.+/.+")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(pause)
    app.command()(resume)


def pause(scope: Scope, config: Config = None) -> None:
    """Stop submissions in a scope on every worker; evidence keeps flowing."""
    if not _SCOPES.fullmatch(scope):
        raise UsageFault(
            "this names no scope; write all, channel:NAME, batch:REPORT/REVISION/CHANNEL,"
            " purpose:NAME or sender:CHANNEL/ADDRESS"
        )
    typer.echo(run(_pause(config_path(config), scope)))


def resume(scope: Scope, config: Config = None) -> None:
    """Open a paused scope and release the rows held under it."""
    released = run(_resume(config_path(config), scope))
    if released is None:
        raise UsageFault("nothing is paused or held under that name; see sendledger status")
    typer.echo(f"resumed; {counted(released, 'row')} released")


async def _pause(config: Path, scope: str) -> str:
    async with open_desk(config) as desk:
        _refuse_unknown(desk, scope)
        if not await scopes.pause(desk.database, scope, actor=who_asks()):
            return "was paused already"
        async with desk.database.connection() as connection:
            met = scope.startswith(("all", "channel:")) or await scope_planned(connection, scope)
    return "paused" if met else "paused; nothing is planned under this name yet"


def _refuse_unknown(desk: Desk, scope: str) -> None:
    """Refuse a slip of the pen: it would look like a pause and stop nobody."""
    kind, _, name = scope.partition(":")
    names = {
        "channel": name,
        "sender": name.partition("/")[0],
        "batch": name.rpartition("/")[2],
    }
    channel = names.get(kind)
    if channel is not None and channel not in desk.plan.channels:
        known = ", ".join(desk.plan.channels) or "none"
        raise UsageFault(
            "no channel of this name is configured, so nothing would be paused;"
            f" configured: {known}"
        )


async def _resume(config: Path, scope: str) -> int | None:
    async with open_desk(config) as desk:
        return await scopes.resume(
            desk.recorder, scope, channels=desk.plan.channels, actor=who_asks()
        )
