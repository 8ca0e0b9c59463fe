"""The queue_db case of the dead listener, at the door: a process that is slower says so, and is not unwell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from acceptance.door import Door
from acceptance.rig import DEADLINE_S, Site, working
from reception_kit import FrontDoor, courier_site, front_door


@pytest.fixture
def site(
    tmp_path: Path, database: str, installation_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    with courier_site(tmp_path, database, installation_id, monkeypatch) as (site, _):
        yield site


async def test_db_05_health_is_degraded_while_the_listener_is_down(site: Site) -> None:
    async with (
        Door(site.dsn) as way,
        working(site, adapt=lambda shop: replace(shop, listen_dsn=way.dsn)) as worker,
        front_door(site, hears=lambda: worker.hears) as door,
    ):
        await until_health(door, "ready")
        await way.shut()
        await until_health(door, "degraded")
        await way.open()
        await until_health(door, "ready")


async def until_health(door: FrontDoor, word: str) -> None:
    """Ask until the process says *word* of itself, and never that it is unwell."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            async with door.client.get(f"http://{door.address}/health") as answer:
                assert answer.status == 200
                if (await answer.json())["status"] == word:
                    return
