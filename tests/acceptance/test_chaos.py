"""Long trouble: workers killed every second, a relay away for minutes. Everybody is accounted for."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial

import pytest

from acceptance.crash_rig import SCALE, SETTINGS, SLOTS, WORKER, Scene, verify
from acceptance.ledger_checker import violations
from acceptance.rig import Site, people, relay_of, terminate, until
from sendledger_sandbox import read_journal

pytestmark = pytest.mark.crash

FULL = os.environ.get("SENDLEDGER_CHAOS") == "full"
ROWS, LASTS_S = (30_000, 60) if FULL else (5_000, 12)
"""SENDLEDGER_CHAOS=full makes a minute of it, over 30,000 rows."""

ENOUGH = ROWS * 9 // 10
"""Where the relay has taken so many, a fast machine is about to run out of work: the killing ends."""

EVERY_S = 1.0
ACCEPTED_MIN = 30
SEED = 5550102
WORKERS = 2
TROUBLE = (
    ("rcpt-550-5.1.1", 0.02),
    ("greylist-1", 0.03),
    ("rcpt-421-once", 0.005),
    ("drop-data-once", 0.01),
    ("lose-answer", 0.005),
    ("drop-dot", 0.005),
)
"""How the relay treats which share of the recipients; the last two leave nobody knowing."""

SILENT = ("lose-answer", "drop-dot")


def recipients(count: int, chance: random.Random) -> dict[str, str]:
    """Return recipients, the trouble they meet written into their addresses."""
    outcomes = chance.choices(
        ["", *(outcome for outcome, _ in TROUBLE)],
        [1 - sum(share for _, share in TROUBLE), *(share for _, share in TROUBLE)],
        k=count,
    )
    return {
        f"S{n:05}": f"parent{n}{outcome and '+'}{outcome}@home.test"
        for n, outcome in enumerate(outcomes)
    }


@dataclass(slots=True, kw_only=True)
class Killing:
    """Keeps workers running, and kills one that is at work again and again.

    In between the relay takes some messages, however long a worker needs to start.
    """

    scene: Scene
    chance: random.Random
    kills: int = 0

    async def run(self, lasts_s: float) -> None:
        """Go on for so long, then leave no worker behind."""
        ends = time.monotonic() + lasts_s
        while time.monotonic() < ends and self.scene.relay.accepted < ENOUGH:
            await self._employ()
            await until(partial(self._due, time.monotonic() + EVERY_S, self.scene.relay.accepted))
            self._kill(self.chance.choice(self._at_work()))
        for worker in self._alive():
            self._kill(worker)
            await worker.wait()

    async def _employ(self) -> None:
        for _ in range(WORKERS - len(self._alive())):
            await self.scene.start()

    def _due(self, due_s: float, accepted: int) -> bool:
        taken = self.scene.relay.accepted
        enough = taken >= min(accepted + ACCEPTED_MIN, ENOUGH)
        return enough and time.monotonic() >= due_s and bool(self._at_work())

    def _alive(self) -> list[asyncio.subprocess.Process]:
        return [worker for worker in self.scene.workers if worker.returncode is None]

    def _at_work(self) -> list[asyncio.subprocess.Process]:
        registered = {row[0] for row in self.scene.site.select("SELECT pid FROM sendledger.worker")}
        return [worker for worker in self._alive() if worker.pid in registered]

    def _kill(self, worker: asyncio.subprocess.Process) -> None:
        worker.send_signal(signal.SIGKILL)
        self.kills += 1


def configure(site: Site) -> None:
    channel = site.settings["channels"]["email"]
    channel["slots"] = str(SLOTS)
    channel["settings"] |= SETTINGS
    site.settings["worker"] = dict(WORKER)
    site.policy = {"scale": SCALE}


@pytest.mark.timeout(600 if FULL else 180)
async def test_workers_that_are_killed_every_second_lose_and_repeat_nobody(site: Site) -> None:
    chance = random.Random(SEED)
    planned = recipients(ROWS, chance)
    configure(site)
    async with relay_of(site) as relay:
        await site.planned(planned)
        scene = Scene(site=site, relay=relay, people=planned)
        killing = Killing(scene=scene, chance=chance)
        try:
            await killing.run(LASTS_S)
            await until(lambda: relay.connections.open == 0)
            taken = relay.accepted
            await scene.finish()
        finally:
            await scene.clear()
        assert killing.kills > WORKERS
        assert violations(site.dsn, relay.journal, planned.keys()) == []
        await asyncio.to_thread(verify, site)
        statuses = Counter(
            dict(site.select("SELECT status, count(*) FROM sendledger.delivery GROUP BY status"))
        )
        lost = len(scene.lost())
        silent = sum(to.partition("@")[0].endswith(SILENT) for to in planned.values())
        assert statuses.keys() <= {"submitted", "ambiguous", "failed"}
        assert statuses["ambiguous"] <= lost + silent
        assert lost <= killing.kills * SLOTS
        print(
            f"\n{killing.kills} kills, {lost} without a result, {taken} taken meanwhile, {statuses}"
        )


async def test_a_relay_that_is_away_for_ten_minutes_costs_nobody_an_attempt_and_needs_no_person(
    site: Site,
) -> None:
    """In time divided by 300. Two workers; the channel is closed, probed by one of them, and opens again."""
    configure(site)
    planned = people(100)
    async with relay_of(site) as relay:
        await relay.close()
        await site.planned(planned)
        async with site.process("work") as one, site.process("work") as other:
            await until(lambda: site.count("back_off") == 1)
            began = "SELECT began_at FROM sendledger.back_off"
            ten = f"SELECT clock_timestamp() >= ({began}) + interval '10 minutes' / {SCALE}"
            await until(lambda: site.select(ten) == [(True,)])
            assert site.count("attempt") == 0
            await relay.reopen()
            unsent = "SELECT 1 FROM sendledger.delivery WHERE status <> 'submitted'"
            await until(lambda: site.select(unsent) == [])
            for worker in (one, other):
                terminate(worker)
                assert await worker.wait() == 0
        assert {(row.attempts, row.spent) for row in site.rows()} == {(1, 1)}
        assert site.count("back_off") == site.count("task") == site.count("pause") == 0
        assert len(read_journal(relay.journal)) == len(planned)
        assert violations(site.dsn, relay.journal, planned.keys()) == []
