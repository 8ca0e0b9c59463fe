"""The cases of the queue that need real processes: killed, pruned, and stopped for longer than a lease."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest

from acceptance.crash_rig import DRAIN, RECIPIENTS, REFUSALS, Blow, Scene, recipients, scene_of
from acceptance.rig import Site, found_site, until
from acceptance.statement_proxy import Side, StatementProxy
from sendledger_sandbox import ConnectionInfo, Phase

pytestmark = pytest.mark.crash

HALF_WAY = 100
WORKERS, CLAIMED, SUBMITTED = 4, 50, 17
"""db-01: how many workers, how many rows each claims, and how many are submitted when they are killed."""


@pytest.fixture
def site(tmp_path: Path, database: str, installation_id: UUID) -> Site:
    return found_site(tmp_path, database, installation_id)


async def test_db_01_what_was_fetched_and_not_sent_is_sent_by_the_next_worker(site: Site) -> None:
    blow = Blow(phase=Phase.DOT, signal=signal.SIGKILL, accepted_min=SUBMITTED)
    slots = CLAIMED // 2
    async with scene_of(site, recipients(), observer=blow, slots=slots) as scene:
        workers = [await scene.start() for _ in range(WORKERS)]
        blow.pids += [worker.pid for worker in workers]
        assert [await scene.gone(worker) for worker in workers] == [-signal.SIGKILL] * WORKERS
        assert await not_finished(site) > 0
        unresolved = scene.unresolved()
        assert 0 < len(unresolved) <= WORKERS * slots
        await scene.recover(unresolved)
        statuses = [row.status for row in site.rows()]
    assert statuses.count("submitted") + statuses.count("ambiguous") == RECIPIENTS


async def not_finished(site: Site) -> int:
    """Return how many deliveries the status command shows as still to be dispatched or in flight."""
    ran = await site.run("status", "--json")
    [batch] = json.loads(ran.out)["batches"]
    assert batch["deliveries"] == RECIPIENTS
    open_ = [row for row in batch["counts"] if row["status"] in {"planned", "submitting"}]
    return sum(row["deliveries"] for row in open_)


@dataclass(slots=True)
class Hold:
    """A relay that answers nothing at *phase* until it is told to."""

    phase: Phase
    reached: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, phase: Phase, _count: int, _info: ConnectionInfo) -> None:
        """Wait at the phase."""
        if phase is self.phase:
            self.reached += 1
            await self.over.wait()


async def test_db_02_no_row_is_invisible_because_its_worker_is_forgotten(site: Site) -> None:
    hold = Hold(Phase.DATA)
    async with scene_of(site, recipients(count=3), observer=hold, slots=2) as scene:
        worker = await scene.start()
        await until(lambda: hold.reached == 2 and sum(row.claimed for row in site.rows()) == 3)
        os.kill(worker.pid, signal.SIGKILL)
        hold.over.set()
        await scene.gone(worker)
        site.select("DELETE FROM sendledger.worker")
        opened = scene.unresolved()
        assert sorted(row.status for row in site.rows()) == ["planned", "submitting", "submitting"]
        await scene.recover(opened)
        assert sorted(row.status for row in site.rows()) == ["ambiguous", "ambiguous", "submitted"]


@pytest.mark.parametrize("phase", [Phase.CONNECT, Phase.DATA, Phase.DOT])
async def test_db_03_a_worker_that_slept_past_its_lease_repeats_nothing(
    phase: Phase, site: Site
) -> None:
    enough = 0 if phase is Phase.CONNECT else 3
    blow = Blow(phase=phase, signal=signal.SIGSTOP, accepted_min=0, in_flight_min=enough)
    async with scene_of(site, recipients(), observer=blow) as scene:
        sleeper = await scene.start(*DRAIN)
        blow.pids.append(sleeper.pid)
        await until(blow.struck.is_set)
        await outlived(scene, sleeper)
        assert {row.status for row in site.rows()} == {"submitted"}
        not_begun = {row[0] for row in site.select(NOT_BEGUN)}
        assert {row.intent_id for row in site.rows() if row.attempts > 1} == not_begun


@pytest.mark.parametrize("statement", ["open_attempts", "record_accepted", "write_deliveries"])
async def test_db_03_a_worker_that_slept_between_two_statements_hinders_nobody(
    statement: str, site: Site
) -> None:
    """It wakes past its lease: what it had opened it does not submit, what it had not committed is undone."""
    async with scene_of(site, recipients(REFUSALS)) as scene, StatementProxy(site.dsn) as proxy:
        asleep = asyncio.Event()
        proxy.watch = falling_asleep(scene, statement, asleep)
        sleeper = await scene.start(*DRAIN, dsn=proxy.dsn)
        await until(asleep.is_set)
        lost = await outlived(scene, sleeper)
        not_begun = {(row[0], row[1]) for row in site.select(NOT_BEGUN)}
        assert not_begun or statement != "open_attempts"
        assert not_begun <= lost
        assert {row.status for row in site.rows()} == {"submitted", "failed"}


def falling_asleep(
    scene: Scene, statement: str, asleep: asyncio.Event
) -> Callable[[str, Side], bool]:
    """Return a watch that stops the first worker when a statement is done and it does not know yet."""

    def watch(met: str, side: Side) -> bool:
        due = scene.relay.accepted >= HALF_WAY and not asleep.is_set()
        if due and (met, side) == (statement, Side.AFTER):
            os.kill(scene.workers[0].pid, signal.SIGSTOP)
            asleep.set()
        return False

    return watch


NOT_BEGUN = "SELECT intent_id, attempt FROM sendledger.observation WHERE rule = 'handoff.not-begun'"


async def outlived(scene: Scene, sleeper: asyncio.subprocess.Process) -> set[tuple[int, int]]:
    """Let another worker do everything while the *sleeper* sleeps, wake it, and account for both.

    Returns the attempts that the other found without a result.
    """
    await scene.finish()
    lost = scene.lost()
    assert lost == {
        (row.intent_id, row.attempts) for row in scene.site.rows() if row.status == "ambiguous"
    }
    os.kill(sleeper.pid, signal.SIGCONT)
    assert await scene.gone(sleeper) == 0, scene.said(sleeper)
    assert scene.lost() == lost
    await scene.check()
    return lost
