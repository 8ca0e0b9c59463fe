"""What goes with evidence: tasks, suppressions, pauses and decisions, each once and by rule."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import ledger_rig
from findings import accepted, receipt, refused, unanswered
from fixed_policy import POLICY
from ledger_rig import LONG_AGO, Rig
from sendledger.journal import scopes as pausing
from sendledger.journal.advance import Entry
from sendledger.ledger import decisions
from sendledger.ledger.findings import Finding
from sendledger.ledger.words import Scope, Suppress
from sendledger.store import deliveries, scopes
from sendledger.store.scopes import NewPause, list_pauses
from sendledger.work.proposals import when_waiting


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig
        assert await rig.verify() == []


async def suppressed(rig: Rig) -> list[str]:
    found = await rig.rows("SELECT scope_key FROM sendledger.suppression ORDER BY scope_key")
    return [row["scope_key"] for row in found]


async def paused(rig: Rig) -> list[str]:
    async with rig.database.connection() as connection:
        return sorted(pause.scope_key for pause in await list_pauses(connection))


# --- what goes with it -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suppress", "expected"),
    [
        (Suppress.NONE, []),
        (Suppress.DESTINATION, ["channel:mail"]),
        (Suppress.PAIR, ["sender:mail/office"]),
    ],
)
async def test_a_refusal_suppresses_whom_its_rule_says_and_nobody_else(
    rig: Rig, suppress: Suppress, expected: list[str]
) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, refused(1, final=True, suppress=suppress))
    assert await suppressed(rig) == expected
    assert await rig.stands(intent_id) == ("failed", None)


async def test_an_opt_out_is_suppressed_and_not_failed(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    opted_out = refused(1, final=True, opt_out=True, suppress=Suppress.PAIR)
    await rig.record(intent_id, opted_out)
    assert await rig.stands(intent_id) == ("suppressed", None)
    assert await rig.tasks() == []


async def test_a_person_is_told_once_of_each_cause(rig: Rig) -> None:
    ids = await rig.opened(6)
    await rig.bring(*((i, refused(1, final=True)) for i in ids[:3]))
    await rig.bring(*((i, refused(1, final=True)) for i in ids[3:5]))
    await rig.bring((ids[5], refused(1, final=True, rule="test.other")))
    assert await rig.tasks() == ["failed test.other", "failed test.refused"]


async def test_a_configuration_fault_pauses_once_and_fails_nobody(rig: Rig) -> None:
    ids = await rig.opened(4)
    fault = refused(1, final=True, scope=Scope.SENDER, rule="test.unregistered")
    await rig.bring(*((i, fault) for i in ids[:2]))
    await rig.bring(*((i, fault) for i in ids[2:]))
    assert await paused(rig) == ["sender:mail/office"]
    assert await rig.tasks() == ["paused test.unregistered"]
    for intent_id in ids:
        assert await rig.stands(intent_id) == ("deferred", "release")
        assert (await rig.delivery(intent_id))["spent"] == 0


async def test_a_pause_that_ends_releases_exactly_its_own_rows(rig: Rig) -> None:
    sender, channel = await rig.opened(2)
    await rig.record(sender, refused(1, final=True, scope=Scope.SENDER))
    await rig.record(channel, refused(1, final=True, scope=Scope.CHANNEL))
    rows = await pausing.resume(
        rig.recorder, "sender:mail/office", channels=["mail", "text"], actor="clerk"
    )
    assert rows == 1
    assert await rig.stands(sender) == ("deferred", "retry")
    assert await rig.stands(channel) == ("deferred", "release")
    assert await rig.tasks() == ["paused test.refused"]


async def test_a_row_that_evidence_brings_back_to_its_hold_is_released_with_it(rig: Rig) -> None:
    """Its cause is that of its last hold, although another row moved it last."""
    [intent_id] = await rig.opened()
    await rig.record(intent_id, unanswered(1))
    await rig.record(intent_id, decisions.retry(2, rule="test.retry", due_at=LONG_AGO))
    held = decisions.hold("policy.paused", identity="hold/3", cause="all", now=LONG_AGO)
    await rig.record(intent_id, held)
    await rig.record(intent_id, receipt(accepted(1), "event-1"))
    await rig.record(intent_id, receipt(refused(1), "event-2"))
    assert await rig.stands(intent_id) == ("deferred", "release")
    async with rig.database.connection() as connection:
        orphaned = await deliveries.find_orphaned(connection, channel="mail", rows_max=10)
        found = await deliveries.find_held(connection, channel="mail", cause="all", rows_max=10)
    assert orphaned == found == [(intent_id, 1)]
    await rig.recorder.record([Entry(intent_id=intent_id, propose=pausing.released(None))])
    assert await rig.stands(intent_id) == ("deferred", "retry")
    await rig.open_next(intent_id)


async def test_a_row_is_held_under_its_last_cause(rig: Rig) -> None:
    [intent_id] = await rig.plan()
    first = decisions.hold("policy.paused", identity="hold/0", cause="all", now=LONG_AGO)
    await rig.record(intent_id, first)
    await rig.recorder.record([Entry(intent_id=intent_id, propose=pausing.released(None))])
    then = decisions.hold("policy.paused", identity="hold/2", cause="batch:spring", now=LONG_AGO)
    await rig.record(intent_id, then)
    async with rig.database.connection() as connection:
        for cause, expected in (("all", []), ("batch:spring", [(intent_id, 0)])):
            held = await deliveries.find_held(connection, channel="mail", cause=cause, rows_max=9)
            assert held == expected
        await scopes.note_pause(connection, NewPause(scope_key="all", rule="r", began_by="clerk"))
        orphaned = await deliveries.find_orphaned(connection, channel="mail", rows_max=9)
    assert orphaned == [(intent_id, 0)]


async def test_a_verdict_is_not_written_about_a_row_that_went_meanwhile(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    [done] = await rig.recorder.record(
        [Entry(intent_id=intent_id, propose=when_waiting(decisions.expired(1)))]
    )
    assert not done.added
    assert await rig.stands(intent_id) == ("submitting", "result")


async def test_every_attempt_that_is_spent_is_one_of_the_budget(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    for number in range(1, POLICY.ceiling):
        await rig.record(intent_id, refused(number))
        assert await rig.stands(intent_id) == ("deferred", "retry")
        await rig.open_next(intent_id)
    await rig.record(intent_id, refused(POLICY.ceiling))
    assert await rig.stands(intent_id) == ("failed", None)
    assert (await rig.rules(intent_id))[-1] == "policy.exhausted"
    assert await rig.tasks() == ["failed policy.exhausted"]


async def test_faults_of_ours_cost_no_budget_and_end_in_a_hold(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    for number in range(1, POLICY.attempts_hard_max):
        await rig.record(intent_id, refused(number, scope=Scope.CHANNEL))
        await rig.open_next(intent_id)
    await rig.record(intent_id, refused(POLICY.attempts_hard_max, scope=Scope.CHANNEL))
    row = await rig.delivery(intent_id)
    assert (row["status"], row["awaits"], row["spent"]) == ("deferred", "release", 0)
    assert await rig.tasks() == ["held policy.attempts-hard-max"]


async def test_the_wake_of_a_row_follows_what_it_awaits(rig: Rig) -> None:
    async def wakes(*findings: Finding, **plan: Any) -> bool:
        [intent_id] = await rig.opened(**plan)
        await rig.record(intent_id, *findings)
        return (await rig.delivery(intent_id))["wake_at"] is not None

    assert await wakes(refused(1), report="retry")
    assert await wakes(accepted(1), report="evidence")
    assert await wakes(unanswered(1), report="unknown")
    assert not await wakes(refused(1, final=True), report="failed")
    assert not await wakes(refused(1, final=True, scope=Scope.CHANNEL), report="held")
