"""Look-ups driven by hand, at an installation whose only channel is the courier."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from acceptance.rig import Site, drained
from plugins_for_tests.courier import Office
from reception_kit import courier_site
from sendledger.bootstrap import open_desk, workshop
from sendledger.metrics.meters import Meters
from sendledger.work.reconcile import Reconcile

SOON = "UPDATE sendledger.delivery SET wake_at = now() WHERE awaits = 'evidence'"

Placed = tuple[Site, Office]


@contextmanager
def asking_site(
    folder: Path, dsn: str, installation_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Placed]:
    """Lend the installation and its office; nothing comes up for a look by itself."""
    with courier_site(folder, dsn, installation_id, monkeypatch) as (site, office):
        site.policy["look_up"] = {"first_after": "1h", "silence_after": "2h"}
        site.policy["unknown"] = {"wait": "3h"}
        yield site, office


@asynccontextmanager
async def looking(site: Site) -> AsyncIterator[tuple[Reconcile, Meters]]:
    """Lend the look-ups of the only channel."""
    async with open_desk(site.config) as desk:
        shop, meters = workshop(desk), Meters(desk.plan.channels)
        yield Reconcile(shop, shop.channels[0], meters, lambda _: None), meters


async def look(site: Site, *, times: int = 1) -> int:
    """Look at what is due; returns how many rows were."""
    async with looking(site) as (reconcile, _):
        return sum([await reconcile._look() for _ in range(times)])


async def submitted(placed: Placed, count: int = 1, *, lost: bool = False) -> None:
    """Hand letters over, with or without an answer."""
    site, office = placed
    office.lost = lost
    await site.planned({f"s{n}": f"pat{n}@home.test" for n in range(count)})
    await drained(site)


def overdue(site: Site, column: str = "unknown_due_at", by: str = "1 minute") -> None:
    """Let the wait of every attempt have ended, in the ledger and in the queue."""
    site.select(
        "SET session_replication_role = replica;"
        f" UPDATE sendledger.attempt SET {column} = now() - interval '{by}';"
        f" UPDATE sendledger.delivery SET due_at = now() - interval '{by}',"
        " looked_at = looked_at - interval '1 hour' WHERE awaits = 'evidence'"
    )


def steps(site: Site) -> list[tuple[str, str]]:
    """Return source and rule of every observation, in ledger order."""
    return [
        (source, rule)
        for source, rule in site.select(
            "SELECT source, rule FROM sendledger.observation ORDER BY intent_id, seq"
        )
    ]
