"""Pauses by a person: exact, kept by every worker, and ended by a person alone."""

from __future__ import annotations

import asyncio

import pytest

from acceptance.rig import Site, drained, people, relay_of, until, working
from sendledger_sandbox import ConnectionInfo, Phase

BATCH = "batch:spring/r1/email"
SCOPES = ["all", "channel:email", BATCH, "purpose:reports", "sender:email/reports@school.example"]
CLAIMED_ROW_BY_ROW = SCOPES[2:]


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_paused_scope_sends_nothing_until_it_is_resumed(site: Site, scope: str) -> None:
    async with relay_of(site) as relay:
        await site.planned(people(5))
        assert (await site.tell("pause", scope)).out == "paused\n"
        assert (await site.tell("pause", scope)).out == "was paused already\n"
        await drained(site)
        assert relay.connections.total == site.count("attempt") == 0
        if scope in CLAIMED_ROW_BY_ROW:
            assert {(row.status, row.awaits, row.rule, row.cause) for row in site.rows()} == {
                ("planned", "release", "policy.paused", scope)
            }
            released = 5
        else:
            assert {(row.status, row.awaits) for row in site.rows()} == {("planned", "dispatch")}
            released = 0
        shown = await site.tell("status")
        assert f"paused {scope}" in shown.out
        resumed = await site.tell("resume", scope)
        assert resumed.out == f"resumed; {released} rows released\n"
        await drained(site)
        assert {row.status for row in site.rows()} == {"submitted"}
        assert relay.accepted == 5
        assert site.paused() == []


class Watch:
    """Counts the transactions that the relay has seen begin, and slows them down."""

    def __init__(self) -> None:
        self.begun = 0

    async def __call__(self, phase: Phase, _count: int, _info: ConnectionInfo) -> None:
        self.begun += phase is Phase.MAIL
        if phase is Phase.RCPT:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("scope", ["all", BATCH])
async def test_once_pause_has_returned_the_relay_sees_nothing_that_was_not_open_before(
    site: Site, scope: str
) -> None:
    """The worker is in full flight. What was opened before the pause is finished; nothing else begins."""
    watch = Watch()
    async with relay_of(site, observer=watch) as relay:
        await site.planned(people(250))
        async with working(site) as worker:
            await until(lambda: relay.accepted > 20)
            assert (await site.tell("pause", scope)).code == 0
            opened = site.count("attempt")
            assert opened < 250
            await until(lambda: worker.progress.in_flight == 0)
            await until(lambda: not any(row.claimed for row in site.rows()))
            assert site.count("attempt") == opened == watch.begun == relay.accepted
            await site.tell("resume", scope)
            await until(lambda: all(row.status == "submitted" for row in site.rows()))
    assert relay.accepted == 250


async def test_a_pause_of_one_batch_holds_no_other(site: Site) -> None:
    async with relay_of(site):
        await site.planned({"a1": "a1@home.test"})
        site.batch["content_revision"] = "r2"
        await site.planned({"b1": "b1@home.test"})
        await site.tell("pause", BATCH)
        await drained(site)
        assert site.row("a1").awaits == "release"
        assert site.row("b1").status == "submitted"


async def test_evidence_keeps_flowing_under_a_pause(site: Site) -> None:
    """A handoff that was lost is asked about although everything is paused."""
    site.policy["unknown"]["wait"] = "1m"  # 1 s
    async with relay_of(site):
        await site.planned({"lost": "lost+lose-answer@home.test"})
        await drained(site)
        await site.tell("pause", "all")
        async with working(site):
            await until(lambda: site.row("lost").awaits == "decision")


async def test_a_channel_that_is_not_configured_cannot_be_paused_by_a_slip(site: Site) -> None:
    ran = await site.tell("pause", "channel:emial")
    assert ran.code == 2
    assert ran.err == (
        "sendledger: no channel of this name is configured, so nothing would be paused;"
        " configured: email\n"
    )
    assert site.paused() == []


@pytest.mark.parametrize("scope", ["batch:sprig/r1/email", "purpose:report"])
async def test_a_pause_that_meets_nothing_planned_says_so(site: Site, scope: str) -> None:
    await site.planned(people(1))
    ran = await site.tell("pause", scope)
    assert (ran.code, ran.out) == (0, "paused; nothing is planned under this name yet\n")
    assert site.paused() == [scope]
