"""Stopping and draining: what is in flight is finished, claims are given back, and it is said what is left."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from acceptance.rig import Site, drained, ended, people, relay_of, terminate, until
from sendledger_sandbox import ConnectionInfo, Phase, read_journal

SLOTS = 4


class Gate:
    """Lets no message past a boundary until it is opened."""

    def __init__(self, phase: Phase) -> None:
        self.phase = phase
        self.waiting = 0
        self.open = asyncio.Event()

    async def __call__(self, phase: Phase, _count: int, _info: ConnectionInfo) -> None:
        if phase is self.phase:
            self.waiting += 1
            await self.open.wait()


async def test_sigterm_finishes_what_is_in_flight_and_gives_the_rest_back(site: Site) -> None:
    gate = Gate(Phase.ACCEPTED)
    async with relay_of(site, observer=gate) as relay:
        await site.planned(people(30))
        async with site.process("work") as worker:
            await until(lambda: gate.waiting == SLOTS)
            terminate(worker)
            await until(lambda: len([row for row in site.rows() if row.claimed]) == SLOTS)
            gate.open.set()
            ran = await ended(worker)
        assert ran.code == 0, ran.err
        assert "handed over: 4 accepted" in ran.out
        assert [row.claimed for row in site.rows()] == [False] * 30
        assert sorted(row.status for row in site.rows()) == ["planned"] * 26 + ["submitted"] * 4
        assert site.count("attempt") == SLOTS
    assert len(read_journal(relay.journal)) == SLOTS


async def test_a_second_sigterm_waits_for_nobody_and_records_what_is_unknown(site: Site) -> None:
    gate = Gate(Phase.DOT)
    async with relay_of(site, observer=gate):
        site.settings["worker"]["stop_grace"] = "1h"
        await site.planned(people(10))
        async with site.process("work") as worker:
            await until(lambda: gate.waiting == SLOTS)
            terminate(worker)
            await until(lambda: len([row for row in site.rows() if row.claimed]) == SLOTS)
            terminate(worker)
            ran = await ended(worker)
        assert ran.code == 0, ran.err
        assert_only_what_was_in_flight_is_unknown(site)
        gate.open.set()


async def test_at_the_end_of_the_grace_what_is_in_flight_is_recorded_as_unknown(
    site: Site,
) -> None:
    gate = Gate(Phase.DOT)
    async with relay_of(site, observer=gate):
        site.settings["worker"]["stop_grace"] = "6s"  # 0.1 s
        await site.planned(people(10))
        async with site.process("work") as worker:
            await until(lambda: gate.waiting == SLOTS)
            terminate(worker)
            ran = await ended(worker)
        assert ran.code == 0, ran.err
        assert_only_what_was_in_flight_is_unknown(site)
        gate.open.set()


async def test_a_worker_that_waits_at_a_silent_door_stops_all_the_same(site: Site) -> None:
    """A relay may take five minutes to greet (RFC 5321 section 4.5.3.2.1); nobody waits so long to stop."""
    gate = Gate(Phase.GREETING)
    async with relay_of(site, observer=gate):
        site.settings["worker"]["stop_grace"] = "6s"
        await site.planned(people(10))
        async with site.process("work") as worker:
            await until(lambda: gate.waiting == 1)  # who never served is tried by one for all
            terminate(worker)
            ran = await ended(worker)
        assert ran.code == 0, ran.err
        assert site.count("attempt") == 0
        assert {(row.status, row.claimed) for row in site.rows()} == {("planned", False)}
        gate.open.set()


def assert_only_what_was_in_flight_is_unknown(site: Site) -> None:
    rows = site.rows()
    assert sorted(row.status for row in rows) == ["ambiguous"] * SLOTS + ["planned"] * 6
    assert [row.claimed for row in rows] == [False] * 10
    assert {row.rule for row in rows if row.status == "ambiguous"} == {"handoff.unanswered"}
    stages = site.select("SELECT stage FROM sendledger.observation WHERE outcome = 'ambiguous'")
    assert {stage for (stage,) in stages} == {"submit/shutdown"}


async def test_a_drain_ends_when_nothing_is_due_and_says_what_is_awaited_and_when(
    site: Site,
) -> None:
    async with relay_of(site) as relay:
        site.policy["retry"]["delays"] = ["2h"]
        await site.planned(
            people(5) | {"late": "late+rcpt-452-4.3.0@home.test", "lost": "l+lose-answer@home.test"}
        )
        ran = await site.run("work", "--drain")
        assert ran.code == 0, ran.err
        told = ran.out.splitlines()
        assert told[0] == "handed over: 5 accepted, 1 ambiguous, 1 transient"
        assert [line.rpartition(", earliest ")[0] for line in told[1:]] == [
            "still awaited: 1 ambiguous, evidence",
            "still awaited: 1 deferred, retry",
            "still awaited: 5 submitted, evidence",
        ]
        assert all(" (in " in line for line in told[1:])
        assert relay.accepted == 6


async def test_a_drain_waits_for_what_falls_due_within_the_time_it_is_given(site: Site) -> None:
    async with relay_of(site):
        await site.planned({"soon": "soon+greylist-1@home.test"})
        site.policy["classification"] = {
            "smtp": [
                {
                    "id": "site.greylisted",
                    "codes": ["451"],
                    "outcome": "transient",
                    "retry_floor": "30s",
                }
            ]
        }
        site.write()
        ran = await site.run("work", "--drain", "--within", "1m")
        assert ran.code == 0, ran.err
        assert site.row("soon").status == "submitted"
        assert site.row("soon").attempts == 2


async def test_a_drain_with_nothing_planned_ends_and_says_so(site: Site) -> None:
    ran = await site.run("work", "--drain")
    assert (ran.code, ran.out) == (0, "handed over: nothing\nnothing is awaited\n")


async def test_nothing_is_sent_before_its_time(site: Site) -> None:
    async with relay_of(site) as relay:
        site.batch["not_before"] = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        await site.planned(people(3))
        early = await site.run("work", "--drain")
        assert "handed over: nothing" in early.out
        assert "still awaited: 3 planned, dispatch" in early.out
        assert relay.connections.total == 0


async def test_what_is_planned_for_later_goes_when_its_time_has_come(site: Site) -> None:
    async with relay_of(site):
        site.batch["not_before"] = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
        await site.planned(people(3))
        await drained(site, within_s=60)
        assert {row.status for row in site.rows()} == {"submitted"}
        [(too_early,)] = site.select(
            "SELECT count(*) FROM sendledger.attempt JOIN sendledger.intent USING (intent_id)"
            " WHERE opened_at < eligible_at"
        )
        assert too_early == 0


@pytest.mark.parametrize("signals", [1, 2])
async def test_an_idle_worker_stops_at_once_and_cleanly(site: Site, signals: int) -> None:
    async with relay_of(site), site.process("work") as worker:
        await site.planned(people(1))
        await until(lambda: site.row("s1").status == "submitted")
        for _ in range(signals):
            terminate(worker)
        ran = await ended(worker)
        assert ran.code == 0, ran.err
        assert "handed over: 1 accepted" in ran.out
        assert "Traceback" not in ran.err
