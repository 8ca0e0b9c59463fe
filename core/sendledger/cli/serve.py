"""``sendledger serve``: receipts over HTTP, and the loops of a worker, in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from sendledger.bootstrap import Desk, nowhere_to_report, open_desk, reception, workshop
from sendledger.cli.errors import UsageFault
from sendledger.cli.exporting import Metrics, address_of, exporting
from sendledger.cli.options import Config, config_path, run
from sendledger.cli.running import (
    LogJson,
    LogLevel,
    Teller,
    collect_rarely,
    obey_signals,
    refuse_idleness,
    set_up_logs,
    told_if_abandoned,
)
from sendledger.cli.watch import watch
from sendledger.journal.inbox import Inbox
from sendledger.settings.address import Address
from sendledger.web.app import build_app
from sendledger.web.serving import AddressRefused, serving_http
from sendledger.work.clerk import Clerk
from sendledger.work.worker import Worker

CONNECTIONS_MAX = 16

NoWork = Annotated[bool, typer.Option("--no-work", help="Take receipts in and hand nothing over.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)


def serve(
    *,
    config: Config = None,
    no_work: NoWork = False,
    metrics: Metrics = None,
    log_json: LogJson = False,
    log_level: LogLevel = "info",
) -> None:
    """Take receipts in at ``http.listen`` and do a worker's work, until SIGTERM; what has begun is finished.

    A proxy that speaks TLS stands before it. ``sendledger work`` stays the way to more workers.
    """
    address = address_of(metrics)
    teller = set_up_logs(as_json=log_json, level=log_level)
    run(_serve(config_path(config), teller, metrics=address, with_work=not no_work))


async def _serve(config: Path, teller: Teller, *, metrics: Address | None, with_work: bool) -> None:
    async with open_desk(config, connections_max=CONNECTIONS_MAX) as desk:
        refuse_idleness(desk.plan)
        _refuse_without_url(desk)
        collect_rarely()
        loops = (Worker if with_work else Clerk)(workshop(desk))
        obey_signals(loops.interrupt)
        async with (
            exporting(desk, loops.meters, metrics, teller),
            _taking_in(desk, loops, teller),
            _watched(loops, teller),
        ):
            await loops.run()
        told_if_abandoned(loops.stop)


def _refuse_without_url(desk: Desk) -> None:
    if lost := nowhere_to_report(desk.plan):
        raise UsageFault(
            f"receipts of channel {', '.join(lost)} have nowhere to go: set http.public_url to the"
            " https URL under which providers reach this process"
        )


def _called(public_url: str | None) -> str:
    return "and no provider is told of it" if public_url is None else f"called as {public_url}"


@asynccontextmanager
async def _taking_in(desk: Desk, loops: Worker | Clerk, teller: Teller) -> AsyncIterator[None]:
    """Take receipts in until the block ends; what has begun by then is committed and answered."""
    inbox = Inbox(desk.database, counted=loops.meters.group("received"))
    committing = asyncio.create_task(inbox.run())
    app = build_app(reception(desk, inbox, loops.meters.receipts, lambda: loops.hears))
    http = desk.settings.http
    try:
        async with serving_http(app, http.address, grace=desk.settings.worker.stop_grace) as taken:
            teller.tell(f"receipts at http://{taken}, {_called(http.public_url)}")
            yield
    except AddressRefused as refused:
        raise UsageFault(str(refused)) from refused
    finally:
        committing.cancel()
        with suppress(asyncio.CancelledError):
            await committing


@asynccontextmanager
async def _watched(loops: Worker | Clerk, teller: Teller) -> AsyncIterator[None]:
    if isinstance(loops, Clerk):
        yield
        return
    watching = asyncio.create_task(watch(teller, loops.progress))
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
