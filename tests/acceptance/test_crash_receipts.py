"""Crashes between a receipt and the ledger, and in the middle of asking: nothing is lost, nothing is doubled."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from acceptance.rig import Site, drained, until, working, write_private
from acceptance.statement_proxy import Side, StatementProxy
from acceptance.test_serve import env
from plugins_for_tests.courier import office
from reception_kit import courier_site, front_door
from sendledger.cli import main

pytestmark = pytest.mark.crash

LETTERS = 6
FOLDING = [
    ("take_receipts", Side.AFTER),
    ("write_deliveries", Side.BEFORE),
    ("drop_receipts", Side.AFTER),
    ("COMMIT drop_receipts", Side.BEFORE),
    ("COMMIT drop_receipts", Side.AFTER),
]
ASKING = [
    ("claim_looks", Side.AFTER),
    ("COMMIT load_observations", Side.AFTER),
    ("note_looks", Side.BEFORE),
]
SOON = "UPDATE sendledger.delivery SET wake_at = now() WHERE awaits = 'evidence'"


@pytest.fixture
def site(
    tmp_path: Path, database: str, installation_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    with courier_site(tmp_path, database, installation_id, monkeypatch) as (site, _):
        yield site


@dataclass(slots=True, kw_only=True)
class Blow:
    """Kills a process at one side of one statement, once; *cut* only takes the answer from it."""

    statement: str
    side: Side
    cut: bool = False
    pid: int | None = None
    struck: bool = False

    def __call__(self, statement: str, side: Side) -> bool:
        """Strike when it is time."""
        if self.struck or self.pid is None or (statement, side) != (self.statement, self.side):
            return False
        self.struck = True
        if not self.cut:
            os.kill(self.pid, signal.SIGKILL)
        return True


async def sent(site: Site, *, lost: bool = False) -> None:
    office.lost = lost
    await site.planned({f"s{n}": f"pat{n}@home.test" for n in range(LETTERS)})
    await drained(site)


async def told(site: Site, *words: str) -> None:
    """Report every letter, twice each."""
    async with front_door(site) as door:
        for word in words:
            answers = [door.tell(word, letter=n) for n in range(LETTERS) for _ in range(2)]
            assert set(await asyncio.gather(*answers)) == {204}


async def struck(site: Site, blow: Blow) -> int:
    """Let a worker process run into *blow* by way of a proxy; returns its exit code, 0 when it lives on."""
    async with StatementProxy(site.dsn) as proxy:
        proxy.watch = blow
        write_private(site.folder / "detour-dsn", proxy.dsn)
        config = site.folder / "detour.yaml"
        config.write_text(site.config.read_text().replace("$file: dsn", "$file: detour-dsn"))
        async with site.process("work", "--config", str(config), env=env(site)) as worker:
            blow.pid = worker.pid
            await until(lambda: blow.struck)
            if blow.cut:
                await until(lambda: site.count("inbox") == 0)
                return 0
            return await worker.wait()


def verified(site: Site) -> None:
    """Fold everything anew and compare."""
    with pytest.raises(SystemExit) as ended:
        main(["rebuild", "--verify", "--config", str(site.config)])
    assert not ended.value.code


@pytest.mark.parametrize(("statement", "side"), FOLDING)
async def test_a_process_killed_while_it_folds_leaves_each_receipt_to_be_folded_once(
    statement: str, side: Side, site: Site
) -> None:
    await sent(site)
    await told(site, "sent", "arrived")
    blow = Blow(statement=statement, side=side)
    assert await struck(site, blow) == -signal.SIGKILL
    async with working(site):
        await until(lambda: site.count("inbox") == 0)
    assert {row.status for row in site.rows()} == {"delivered"}
    receipts = site.select(
        "SELECT count(*), count(DISTINCT (intent_id, identity)) FROM sendledger.observation"
        " WHERE source = 'receipt'"
    )
    assert receipts == [(2 * LETTERS, 2 * LETTERS)]
    assert len(office.submitted) == LETTERS
    await asyncio.to_thread(verified, site)


async def test_a_process_that_does_not_hear_of_its_commit_folds_nothing_twice(site: Site) -> None:
    await sent(site)
    await told(site, "arrived")
    await struck(site, Blow(statement="COMMIT drop_receipts", side=Side.AFTER, cut=True))
    assert {row.status for row in site.rows()} == {"delivered"}
    [(rows,)] = site.select("SELECT count(*) FROM sendledger.observation WHERE source = 'receipt'")
    assert rows == LETTERS
    await asyncio.to_thread(verified, site)


@pytest.mark.parametrize(("statement", "side"), ASKING)
async def test_a_worker_killed_while_it_asks_sends_nothing_and_another_one_asks(
    statement: str, side: Side, site: Site
) -> None:
    """The office of this process took the letters; that of the killed one knows of none."""
    await sent(site, lost=True)
    site.select(SOON)
    blow = Blow(statement=statement, side=side)
    assert await struck(site, blow) == -signal.SIGKILL
    assert {row.status for row in site.rows()} == {"ambiguous"}
    site.select(SOON)
    async with working(site):
        await until(lambda: {row.status for row in site.rows()} == {"submitted"})
    assert len(office.submitted) == LETTERS
    await asyncio.to_thread(verified, site)
