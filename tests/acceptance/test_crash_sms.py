"""The crash matrix, SMS side: who submits and takes receipts in is killed at all that the provider sees."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from acceptance.rig import Site
from acceptance.sms_rig import SLOTS, SmsBlow, cast, sms_scene_of
from sendledger_sandbox.twilio import Phase

pytestmark = pytest.mark.crash

Told = Callable[[str, object], None]


@pytest.mark.parametrize("phase", Phase)
async def test_a_process_killed_at_any_phase_loses_no_receipt_and_repeats_nothing(
    phase: Phase, site: Site, record_property: Told
) -> None:
    blow = SmsBlow(phase=phase)
    async with sms_scene_of(site, cast(), observer=blow) as scene:
        process = await scene.start()
        blow.pid = process.pid
        await scene.killed(process)
        unresolved = scene.unresolved()
        told = f"SIGKILL at sms {phase}: {unresolved} without a result, {blow.in_flight} in flight"
        record_property("crash", told)
        assert unresolved <= SLOTS
        await scene.recover()
