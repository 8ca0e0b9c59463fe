"""The newest server and the oldest one that is promised: the same scenario from planning to the proof."""

from __future__ import annotations

import signal

import pytest

from acceptance.crash_rig import Blow, recipients, scene_of
from acceptance.rig import Site
from sendledger_sandbox import Phase
from servers import NEWEST, OLDEST

REFUSED = {9: "rcpt-550-5.1.1", 30: "greylist-1", 60: "drop-data-once", 90: "lose-answer"}
RECIPIENTS = 120


@pytest.fixture
def version(request: pytest.FixtureRequest) -> str:
    """Return which server the test is run with."""
    found: str = request.node.callspec.params["postgres_dsn"]
    return found


def test_each_is_the_server_it_is_taken_for(site: Site, version: str) -> None:
    [(found,)] = site.select("SELECT current_setting('server_version_num')::int / 10000")
    assert (found == int(OLDEST)) is (version == OLDEST)
    assert (found > int(OLDEST)) is (version == NEWEST)


@pytest.mark.crash
async def test_plan_work_kill_work_and_the_ledger_is_whole(site: Site) -> None:
    people = recipients(REFUSED, count=RECIPIENTS)
    blow = Blow(phase=Phase.DOT, signal=signal.SIGKILL, accepted_min=40)
    async with scene_of(site, people, observer=blow, slots=10) as scene:
        workers = [await scene.start() for _ in range(2)]
        blow.pids.append(workers[0].pid)
        assert await scene.ended(workers[0]) == -signal.SIGKILL
        workers[1].send_signal(signal.SIGTERM)
        assert await scene.gone(workers[1]) == 0, scene.said(workers[1])
        await scene.recover(scene.unresolved() | scene.lost())
        shown = await site.run("status", "spring")
        assert f"{RECIPIENTS} deliveries" in shown.out
        told = await site.run("explain", site.row("S0009").key)
        assert "smtp.address-unknown" in told.out
