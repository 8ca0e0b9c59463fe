"""Crashes: a planned batch, a relay that sees every boundary, workers to kill, and the reckoning.

Workers are unmodified processes, killed from outside by the peer that sees the boundary. What a crash
may leave behind is judged by :mod:`acceptance.ledger_checker`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from acceptance.ledger_checker import violations
from acceptance.rig import ENVIRONMENT, Site, until, write_private
from sendledger.cli import main
from sendledger_sandbox import CaptureServer, ConnectionInfo, Observer, Phase

SLOTS = 20
RECIPIENTS = 240
WITHIN_S = 60.0
DRAIN = ("--drain", "--within", "30s")

SETTINGS: Mapping[str, str] = {
    "sessions_max": "10",
    "messages_per_session_max": "5",
}
"""Fewer sessions than slots, and many of them, so that every phase is reached again and again."""

WORKER: Mapping[str, str] = {"lease": "15m", "sweep": "1m", "poll": "30s", "stop_grace": "3h"}
SCALE = "300"
"""A lease of 3 s, a sweep every 0.2 s, greylisting after 1 s, 36 s for what is in flight at a stop."""

RELAY_TAKES = "stall-0.045"
"""What the relay takes before each 250: several are always in flight, and a heartbeat falls into each run."""

REFUSALS: Mapping[int, str] = {17: "rcpt-550-5.1.1", 140: "rcpt-550-5.1.1"} | dict.fromkeys(
    (*range(30, 36), *range(150, 156)), "greylist-1"
)
HICCUPS: Mapping[int, str] = {45: "drop-data-once", 145: "drop-data-once"}
SILENCES: Mapping[int, str] = {60: "lose-answer", 70: "drop-dot"}
"""Which of the recipients meet trouble at the relay: certain, passing, or without any answer."""

Attempts = set[tuple[int, int]]
"""(intent id, attempt number)."""


def recipients(*faults: Mapping[int, str], count: int = RECIPIENTS) -> dict[str, str]:
    """Return made-up recipients, with the relay's behaviour written into the addresses it is meant for."""
    trouble = {n: f"+{outcome}" for fault in faults for n, outcome in fault.items()}
    return {f"S{n:04}": f"parent{n}{trouble.get(n, '')}@home.test" for n in range(1, count + 1)}


@dataclass(slots=True, kw_only=True)
class Blow:
    """Sends *signal* once, when the relay reaches *phase* half-way through: before it answers there.

    In flight are messages whose recipient was accepted and whose answer is still to come, those that
    meet trouble not counted: each of them is an open attempt.
    """

    phase: Phase
    signal: signal.Signals
    accepted_min: int = 100
    in_flight_min: int = 3
    pids: list[int] = field(default_factory=list)
    accepted: int = 0
    peak: int = 0
    busy: set[int] = field(default_factory=set)
    struck: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, phase: Phase, _count: int, info: ConnectionInfo) -> None:
        """Count, and strike when it is time."""
        if phase is Phase.DATA and "+" not in info.rcpt[0]:
            self.busy.add(info.number)
        self.accepted += phase is Phase.ACCEPTED
        self.peak = max(self.peak, len(self.busy))
        if phase is self.phase and self.due and not self.struck.is_set():
            self.strike()
        if phase is Phase.REPLIED:
            self.busy.discard(info.number)

    def strike(self) -> None:
        """Signal every process that is to be hit."""
        for pid in self.pids:
            os.kill(pid, self.signal)
        self.struck.set()

    @property
    def due(self) -> bool:
        """Whether enough is accepted and enough in flight."""
        return self.accepted >= self.accepted_min and len(self.busy) >= self.in_flight_min

    def told(self, ambiguous: int) -> str:
        """Return a line of the matrix."""
        at = f"{self.signal.name} at {self.phase}"
        return f"{at}: {ambiguous} without a result, {self.peak} in flight at most"


@dataclass(slots=True, kw_only=True)
class Scene:
    """An installation with its relay, and the workers that come and go there."""

    site: Site
    relay: CaptureServer
    people: Mapping[str, str]
    workers: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def start(self, *options: str, dsn: str | None = None) -> asyncio.subprocess.Process:
        """Start a worker process; *dsn* takes it to the database by another way."""
        config = self.site.config if dsn is None else self._detour(dsn)
        with self._log(len(self.workers)).open("wb") as log:
            worker = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "sendledger", "work", *options, "--config", config),
                cwd=self.site.folder,
                env=ENVIRONMENT,
                stdout=log,
                stderr=log,
            )
        self.workers.append(worker)
        return worker

    def _detour(self, dsn: str) -> str:
        """Write settings that differ in the way to the database only."""
        write_private(self.site.folder / "detour-dsn", dsn)
        config = self.site.folder / "detour.yaml"
        config.write_text(self.site.config.read_text().replace("$file: dsn", "$file: detour-dsn"))
        return str(config)

    def _log(self, number: int) -> Path:
        return self.site.folder / f"worker-{number}.log"

    def said(self, worker: asyncio.subprocess.Process) -> str:
        """Return what a worker printed, for a failed assertion."""
        return self._log(self.workers.index(worker)).read_text()

    async def ended(self, worker: asyncio.subprocess.Process) -> int:
        """Wait for the end of *worker*; returns its exit code."""
        async with asyncio.timeout(WITHIN_S):
            return await worker.wait()

    async def gone(self, worker: asyncio.subprocess.Process) -> int:
        """As :meth:`ended`, and until neither peer has anything left of it, or of any other worker."""
        code = await self.ended(worker)
        await until(lambda: self.relay.connections.open == 0, within_s=WITHIN_S)
        await until(lambda: not self.site.select(SESSIONS), within_s=WITHIN_S)
        return code

    async def finish(self) -> None:
        """Let a worker do all there is to do, to a good end."""
        worker = await self.start(*DRAIN)
        assert await self.ended(worker) == 0, self.said(worker)

    async def clear(self) -> None:
        """Kill every worker that still runs, also a stopped one."""
        for worker in self.workers:
            if worker.returncode is None:
                worker.kill()
            await worker.wait()

    # --- the reckoning ---------------------------------------------------------------------------

    def unresolved(self) -> Attempts:
        """Return the attempts without a result."""
        return {(row[0], row[1]) for row in self.site.select(UNRESOLVED)}

    def lost(self) -> Attempts:
        """Return the attempts whose lease ended before there was a result."""
        return {(row[0], row[1]) for row in self.site.select(LOST)}

    async def recover(self, unresolved: Attempts) -> None:
        """Let another worker finish, and hold the ledger to what it promised at the kill."""
        await self.finish()
        await self.hold_to_account(unresolved)

    async def hold_to_account(self, lost: Attempts) -> None:
        """Check that everybody is accounted for, with exactly the *lost* attempts made unknown by a lease."""
        await self.check()
        assert self.lost() == lost
        silent = sum("drop-dot" in to or "lose-answer" in to for to in self.people.values())
        unknown = {row.intent_id for row in self.site.rows() if row.status == "ambiguous"}
        assert unknown >= {intent_id for intent_id, _ in lost}
        assert len(unknown) <= len(lost) + silent

    async def check(self) -> None:
        """Check what must hold whatever happened, once nothing is left to do."""
        assert violations(self.site.dsn, self.relay.journal, self.people.keys()) == []
        assert {row.status for row in self.site.rows()} <= ENDS
        await asyncio.to_thread(verify, self.site)


ENDS = frozenset({"submitted", "ambiguous", "failed"})
SESSIONS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
UNRESOLVED = "SELECT intent_id, attempt_count FROM sendledger.delivery WHERE status = 'submitting'"
LOST = "SELECT intent_id, attempt FROM sendledger.observation WHERE source = 'lease'"


def verify(site: Site) -> None:
    """Run ``rebuild --verify``, which must find nothing."""
    with pytest.raises(SystemExit) as ended:
        main(["rebuild", "--verify", "--config", str(site.config)])
    assert not ended.value.code, "the projection is not what the ledger says"


@asynccontextmanager
async def scene_of(
    site: Site,
    people: Mapping[str, str],
    *,
    observer: Observer | None = None,
    slots: int = SLOTS,
    **worker: str,
) -> AsyncIterator[Scene]:
    """Plan a batch for *people* at *site*, and lend it with a relay that tells *observer* of everything.

    *worker* replaces settings of the worker; they are divided by ``SCALE``.
    """
    channel = site.settings["channels"]["email"]
    channel["slots"] = str(slots)
    channel["settings"] |= SETTINGS
    site.settings["worker"] = {**WORKER, **worker}
    site.policy = {"scale": SCALE}
    journal = site.folder / "accepted.jsonl"
    script = [RELAY_TAKES]
    async with CaptureServer(
        journal=journal, script=script, observer=observer, fsync=False
    ) as relay:
        site.relay["port"] = str(relay.port)
        await site.planned(people)
        scene = Scene(site=site, relay=relay, people=people)
        try:
            yield scene
        finally:
            await scene.clear()
    assert relay.unexpected == []
