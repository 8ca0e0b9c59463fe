"""The crash matrix, relay side: a worker is killed, or told to stop, at every phase of an SMTP session."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from acceptance.crash_rig import HICCUPS, REFUSALS, SILENCES, SLOTS, Blow, recipients, scene_of
from acceptance.rig import Site, until
from sendledger_sandbox import ConnectionInfo, Phase
from sendledger_smtp.ramp import START

pytestmark = pytest.mark.crash

Told = Callable[[str, object], None]


@pytest.mark.parametrize("phase", Phase)
async def test_a_worker_killed_at_any_phase_loses_nobody_and_repeats_nothing(
    phase: Phase, site: Site, record_property: Told
) -> None:
    blow = Blow(phase=phase, signal=signal.SIGKILL)
    people = recipients(REFUSALS, HICCUPS, SILENCES)
    async with scene_of(site, people, observer=blow) as scene:
        worker = await scene.start()
        blow.pids.append(worker.pid)
        assert await scene.gone(worker) == -signal.SIGKILL
        unresolved = scene.unresolved()
        record_property("crash", blow.told(len(unresolved)))
        assert blow.in_flight_min <= len(unresolved) <= SLOTS
        await scene.recover(unresolved)


@pytest.mark.parametrize("phase", Phase)
async def test_a_worker_told_to_stop_at_any_phase_leaves_nothing_unknown(
    phase: Phase, site: Site, record_property: Told
) -> None:
    blow = Blow(phase=phase, signal=signal.SIGTERM)
    async with scene_of(site, recipients(REFUSALS, HICCUPS), observer=blow) as scene:
        worker = await scene.start()
        blow.pids.append(worker.pid)
        assert await scene.gone(worker) == 0, scene.said(worker)
        unresolved = scene.unresolved()
        record_property("crash", blow.told(len(unresolved)))
        assert blow.struck.is_set()
        assert not unresolved
        await scene.recover(set())


@dataclass(slots=True)
class Silence:
    """A relay that reads messages to their final dot and never answers."""

    reached: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, phase: Phase, _count: int, _info: ConnectionInfo) -> None:
        """Hold the session there."""
        if phase is Phase.DOT:
            self.reached += 1
            await self.over.wait()


async def test_a_stop_before_a_silent_relay_ends_after_its_grace_and_records_what_is_unknown(
    site: Site,
) -> None:
    silence = Silence()
    async with scene_of(site, recipients(count=30), observer=silence, stop_grace="5m") as scene:
        worker = await scene.start()
        await until(lambda: silence.reached == START)  # no session has served yet
        os.kill(worker.pid, signal.SIGTERM)
        assert await scene.ended(worker) == 0, scene.said(worker)
        silence.over.set()
        assert not scene.unresolved()
        unknown = [row for row in site.rows() if row.status == "ambiguous"]
        assert len(unknown) == silence.reached
        await scene.finish()
        await scene.check()
        assert not scene.lost()
