"""``--metrics``: show Prometheus the ledger and this process, while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated

import typer

from sendledger.bootstrap import Desk
from sendledger.cli.errors import UsageFault
from sendledger.cli.running import Teller
from sendledger.metrics.exporter import Exporter
from sendledger.metrics.meters import Meters
from sendledger.metrics.serving import AddressRefused, serving
from sendledger.settings.address import Address, parse_address

Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="HOST:PORT",
        help="Serve metrics for Prometheus there, such as 127.0.0.1:9464.",
        show_default=False,
    ),
]


def address_of(text: str | None) -> Address | None:
    """Return the address of ``--metrics``. Raises :class:`UsageFault`."""
    try:
        return None if text is None else parse_address(text)
    except ValueError as error:
        raise UsageFault(f"--metrics: {error}") from error


@asynccontextmanager
async def exporting(
    desk: Desk, meters: Meters, address: Address | None, teller: Teller
) -> AsyncIterator[None]:
    """Serve metrics at *address*, if there is one, until the block ends. Raises :class:`UsageFault`."""
    if address is None:
        yield
        return
    exporter = Exporter(desk.database, channels=desk.plan.channels, grace=desk.plan.policy.grace)
    meters.registry.register(exporter)
    try:
        with serving(meters.registry, address) as taken:
            teller.tell(f"metrics at http://{taken}/metrics")
            reading = asyncio.create_task(exporter.run())
            try:
                yield
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError):
                    await reading
    except AddressRefused as refused:
        raise UsageFault(str(refused)) from refused
