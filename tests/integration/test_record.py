"""Recording: whoever brings evidence, by whatever path, in whatever company, it stands once and folded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest

import ledger_rig
from ledger_rig import (
    FAR_OFF,
    LONG_AGO,
    POLICY,
    Rig,
    accepted,
    delivered,
    proposing,
    receipt,
    refused,
    unanswered,
    without_place,
)
from sendledger.journal import scopes as pausing
from sendledger.journal.advance import Entry
from sendledger.ledger import decisions
from sendledger.ledger.findings import Finding, lost_in_lease
from sendledger.ledger.words import Scope, Suppress
from sendledger.store import deliveries, side_effects, views
from sendledger.store.scopes import list_pauses
from sendledger.work.proposals import when_waiting

INSTANTS = {"due_at", "wake_at"}


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig
        assert await rig.verify() == []


async def entries_of(rig: Rig, *brought: tuple[int, Finding]) -> None:
    await rig.recorder.record(
        [Entry(intent_id=intent_id, propose=proposing(finding)) for intent_id, finding in brought]
    )


async def tasks(rig: Rig) -> list[str]:
    async with rig.database.connection() as connection:
        found = await side_effects.list_tasks(connection, rows_max=100)
    return sorted(f"{task.kind} {task.cause}" for task in found)


async def suppressed(rig: Rig) -> list[str]:
    found = await rig.rows("SELECT scope_key FROM sendledger.suppression ORDER BY scope_key")
    return [row["scope_key"] for row in found]


async def paused(rig: Rig) -> list[str]:
    async with rig.database.connection() as connection:
        return sorted(pause.scope_key for pause in await list_pauses(connection))


# --- two paths, one ledger -------------------------------------------------------------------


async def test_fast_and_slow_path_write_the_same_ledger_and_projection(rig: Rig) -> None:
    fast, slow = await rig.opened(2)
    assert await rig.record_fast(fast, 2, accepted(1))
    await rig.record(slow, accepted(1))

    assert without_place(await rig.observations(fast)) == without_place(
        await rig.observations(slow)
    )
    one, other = await rig.delivery(fast), await rig.delivery(slow)
    assert {name for name in one if one[name] != other[name]} == {"intent_id", *INSTANTS}
    for intent_id, row in ((fast, one), (slow, other)):
        [attempt] = await rig.attempts(intent_id)
        assert (row["due_at"], row["wake_at"]) == (
            attempt.evidence_due_at,
            attempt.window_ends_at,
        )


async def test_both_paths_keep_the_literal_reply(rig: Rig) -> None:
    fast, slow = await rig.opened(2)
    await rig.record_fast(fast, 2, accepted(1))
    await rig.record(slow, accepted(1))
    async with rig.database.connection() as connection:
        for intent_id in (fast, slow):
            literals = await views.load_literals(connection, intent_id)
            assert literals == {2: b"250 2.0.0 queued"}


async def test_the_fast_path_leaves_alone_what_something_else_came_to_first(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, delivered(1))
    before = await rig.folded(intent_id)
    assert not await rig.record_fast(intent_id, 2, accepted(1))
    assert await rig.folded(intent_id) == before


async def test_the_fast_path_leaves_alone_what_was_barred_in_flight(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, decisions.expired(1))
    assert await rig.stands(intent_id) == ("submitting", "result")
    assert not await rig.record_fast(intent_id, 2, accepted(1))
    await rig.record(intent_id, accepted(1))
    assert await rig.rules(intent_id) == ["policy.expired", "default.2yz"]


async def test_the_fast_path_takes_a_group_apart(rig: Rig) -> None:
    first, second, third = await rig.opened(3)
    await rig.record(second, lost_in_lease(1))
    rows = [rig.recorder.accepted_row(i, 2, accepted(1)) for i in (first, second, third)]
    assert await rig.recorder.record_accepted(rows) == {first, third}
    assert await rig.stands(second) == ("ambiguous", "evidence")


async def test_the_fast_path_of_a_second_attempt_writes_what_the_fold_would(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, refused(1))
    await rig.open_next(intent_id)
    assert await rig.record_fast(intent_id, 5, accepted(2))
    row = await rig.delivery(intent_id)
    assert (row["status"], row["attempt_count"], row["spent"]) == ("submitted", 2, 2)


async def test_a_result_ends_the_claim(rig: Rig) -> None:
    fast, slow = await rig.opened(2)
    await rig.record_fast(fast, 2, accepted(1))
    await rig.record(slow, refused(1))
    for intent_id in (fast, slow):
        row = await rig.delivery(intent_id)
        assert (row["claim_token"], row["lease_until"], row["claims"]) == (None, None, 0)


async def test_a_verdict_ends_the_claim_and_its_count(rig: Rig) -> None:
    [intent_id] = await rig.plan()
    await rig.claim()
    await rig.record(intent_id, decisions.wait("quiet-hours", FAR_OFF))
    row = await rig.delivery(intent_id)
    assert (row["claim_token"], row["lease_until"], row["claims"]) == (None, None, 0)
    assert (row["due_at"], row["wake_at"]) == (FAR_OFF, FAR_OFF)


# --- repetition and order --------------------------------------------------------------------


@pytest.mark.parametrize(
    "finding",
    [accepted(1), refused(1), refused(1, final=True, suppress=Suppress.DESTINATION), unanswered(1)],
    ids=["accepted", "refused", "failed", "unanswered"],
)
async def test_a_repeat_changes_nothing(rig: Rig, finding: Finding) -> None:
    [intent_id] = await rig.opened()
    first = await rig.record(intent_id, finding)
    before = await rig.delivery(intent_id), await rig.observations(intent_id), await tasks(rig)
    again = await rig.record(intent_id, finding)
    after = await rig.delivery(intent_id), await rig.observations(intent_id), await tasks(rig)
    assert first.added
    assert not again.added
    assert after == before


async def test_a_repeat_of_the_fast_path_changes_nothing(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    assert await rig.record_fast(intent_id, 2, accepted(1))
    before = await rig.delivery(intent_id)
    assert not await rig.record_fast(intent_id, 2, accepted(1))
    assert not (await rig.record(intent_id, accepted(1))).added
    assert await rig.delivery(intent_id) == before


async def test_what_comes_twice_in_one_group_is_stored_once(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await entries_of(rig, (intent_id, accepted(1)), (intent_id, accepted(1)))
    assert await rig.rules(intent_id) == ["default.2yz"]


async def test_several_entries_of_one_intent_build_on_each_other(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await entries_of(rig, (intent_id, accepted(1)), (intent_id, delivered(1)))
    row = await rig.delivery(intent_id)
    assert (row["status"], row["seq"], row["because"]) == ("delivered", 3, 3)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
async def test_evidence_in_any_order_gives_the_same_delivery(
    rig: Rig, order: Sequence[int]
) -> None:
    [intent_id] = await rig.opened()
    evidence = [accepted(1), lost_in_lease(1), delivered(1)]
    for place in order:
        await rig.record(intent_id, evidence[place])
    row = await rig.delivery(intent_id)
    assert (row["status"], row["contradicted"], row["seq"]) == ("delivered", False, 4)


async def test_a_late_result_after_recovery_is_folded(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, lost_in_lease(1))
    assert await rig.stands(intent_id) == ("ambiguous", "evidence")
    await rig.record(intent_id, accepted(1))
    assert await rig.stands(intent_id) == ("submitted", "evidence")


async def test_a_late_refusal_after_recovery_is_decided(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, lost_in_lease(1))
    await rig.record(intent_id, refused(1))
    assert await rig.stands(intent_id) == ("deferred", "retry")


@pytest.mark.parametrize(
    ("early", "status"),
    [
        (receipt(accepted(1)), "submitted"),
        (delivered(1), "delivered"),
        (receipt(refused(1, final=True)), "failed"),
    ],
    ids=["accepted", "delivered", "failed"],
)
async def test_a_receipt_before_the_result_counts_and_the_result_moves_nothing_back(
    rig: Rig, early: Finding, status: str
) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, early)
    assert (await rig.delivery(intent_id))["status"] == status
    await rig.record(intent_id, accepted(1, reference="queue-9"))
    assert (await rig.delivery(intent_id))["status"] == status
    assert (await rig.observations(intent_id))[-1].provider_reference == "queue-9"


async def test_evidence_against_a_terminal_marks_it_and_opens_one_task(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, refused(1, final=True))
    await rig.record(intent_id, delivered(1, "event-1"))
    await rig.record(intent_id, delivered(1, "event-2"))
    row = await rig.delivery(intent_id)
    assert (row["status"], row["contradicted"]) == ("failed", True)
    assert await tasks(rig) == ["contradicted default.2yz", "failed test.refused"]


async def test_an_intent_that_does_not_exist_is_passed_over(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    entry = Entry(intent_id=intent_id + 999, propose=proposing(accepted(1)))
    assert await rig.recorder.record([entry]) == []


# --- evidence is never lost to how it is written ---------------------------------------------

HOSTILE = [
    "queue\0id", "half \ud800 pair", 'a"b', "a\\b", "{a,b}", "NULL", "", " a ", "a\nb", "naïve 漢字",
    "%s %(name)s", "x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("path", ["fast", "slow"])
async def test_a_group_with_hostile_references_is_stored_whole(rig: Rig, path: str) -> None:
    ids = await rig.opened(len(HOSTILE))
    findings = [accepted(1, reference=text) for text in HOSTILE]
    if path == "fast":
        rows = [
            rig.recorder.accepted_row(intent_id, 2, finding)
            for intent_id, finding in zip(ids, findings, strict=True)
        ]
        assert await rig.recorder.record_accepted(rows) == set(ids)
    else:
        await entries_of(rig, *zip(ids, findings, strict=True))
    stored = [(await rig.observations(i))[0].provider_reference for i in ids]
    assert stored[2:] == HOSTILE[2:]
    assert stored[:2] == ["queue\N{REPLACEMENT CHARACTER}id", "half ? pair"]


async def test_codes_of_any_size_are_stored_or_left_to_the_literal(rig: Rig) -> None:
    ids = await rig.opened(3)
    codes = (63016, 2**40, -1)
    await entries_of(
        rig,
        *((i, replace(refused(1), reply_code=code)) for i, code in zip(ids, codes, strict=True)),
    )
    stored = [(await rig.observations(i))[0].reply_code for i in ids]
    assert stored == [63016, None, -1]


async def test_any_octets_of_a_reply_come_back_as_they_were(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    literal = bytes(range(256))
    await rig.record(intent_id, replace(accepted(1), literal=literal))
    async with rig.database.connection() as connection:
        assert await views.load_literals(connection, intent_id) == {2: literal}


async def test_a_wait_beyond_the_calendar_is_stored_as_ten_years(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    done = await rig.record(intent_id, refused(1), floor=timedelta.max)
    due = (await rig.delivery(intent_id))["due_at"]
    assert due == done.locked.now + timedelta(days=3650)


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in-company"])
async def test_a_member_that_the_ledger_refuses_stops_nobody(rig: Rig, alone: bool) -> None:
    """An acceptance with a scope breaks a constraint; no channel of ours can bring one."""
    bad, *others = await rig.opened(1 if alone else 4)
    impossible = replace(accepted(1), scope=Scope.SENDER)
    async with ledger_rig.recording(rig.recorder) as recording:
        await asyncio.gather(
            recording.entries.add(Entry(intent_id=bad, propose=proposing(impossible))),
            *(
                recording.entries.add(Entry(intent_id=i, propose=proposing(accepted(1))))
                for i in others
            ),
        )
    assert await rig.stands(bad) == ("submitting", "result")
    for intent_id in others:
        assert await rig.stands(intent_id) == ("submitted", "evidence")


async def test_an_acceptance_in_bad_company_takes_the_slow_path(rig: Rig) -> None:
    bad, good = await rig.opened(2)
    broken = replace(rig.recorder.accepted_row(bad, 2, accepted(1)), seal=b"short")
    async with ledger_rig.recording(rig.recorder) as recording:
        entry = Entry(intent_id=good, propose=proposing(accepted(1)))
        taken, _ = await asyncio.gather(
            recording.accepted.add(broken), recording.result(good, 1, accepted(1), entry)
        )
    assert not taken
    assert await rig.stands(bad) == ("submitting", "result")
    assert await rig.stands(good) == ("submitted", "evidence")


# --- together --------------------------------------------------------------------------------


async def test_recorders_with_overlapping_groups_do_not_deadlock(rig: Rig) -> None:
    ids = await rig.opened(30)
    faults = {
        scope: refused(1, final=True, scope=scope, rule=f"test.{scope}")
        for scope in (Scope.SENDER, Scope.CHANNEL)
    }

    async def bring(order: Sequence[int], scopes: Sequence[Scope]) -> None:
        chosen = [faults[scopes[place % 2]] for place in range(len(order))]
        receipts = [receipt(fault, f"event/{scopes[0]}") for fault in chosen]
        await entries_of(rig, *zip(order, receipts, strict=True))

    one, other = (Scope.SENDER, Scope.CHANNEL), (Scope.CHANNEL, Scope.SENDER)
    async with asyncio.timeout(30):
        await asyncio.gather(
            bring(ids, one),
            bring(ids[::-1], other),
            bring(ids[10:] + ids[:10], one),
            bring(ids[:20], other),
        )
    deadlocks = await rig.rows(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    assert deadlocks == [{"deadlocks": 0}]
    for intent_id in ids:
        events = [row for row in await rig.observations(intent_id) if row.outcome]
        assert len(events) == 2
    assert await paused(rig) == ["channel:mail", "sender:mail/office"]


async def test_rows_are_locked_in_key_order_wherever_they_lie(rig: Rig) -> None:
    ids = await rig.opened(5)
    for intent_id in ids[1::-1]:
        # A rewritten row lies behind the others: where rows lie is not the order of their keys.
        await rig.run("UPDATE sendledger.delivery SET claims = 1 WHERE intent_id = %s", intent_id)
    async with rig.database.transaction() as connection:
        held = "SELECT FROM sendledger.delivery WHERE intent_id = %s FOR UPDATE"
        await connection.execute(held, [ids[2]])
        brought = asyncio.create_task(entries_of(rig, *((i, accepted(1)) for i in ids[::-1])))
        await rig.until_somebody_waits()
        free = await rig.rows(
            "SELECT intent_id FROM sendledger.delivery ORDER BY intent_id FOR UPDATE SKIP LOCKED"
        )
    await brought
    assert [row["intent_id"] for row in free] == ids[3:]


async def test_groups_in_other_orders_suppress_the_same_people_without_deadlock(rig: Rig) -> None:
    spring = await rig.opened(12)
    summer = await rig.opened(12, report="summer")
    final = refused(1, final=True, suppress=Suppress.DESTINATION)
    async with asyncio.timeout(30):
        await asyncio.gather(
            entries_of(rig, *((i, final) for i in spring)),
            entries_of(rig, *((i, final) for i in summer[::-1])),
        )
    assert await suppressed(rig) == ["channel:mail"] * 12


async def test_two_recorders_that_bring_the_same_evidence_store_it_once(rig: Rig) -> None:
    ids = await rig.opened(20)
    await asyncio.gather(*(entries_of(rig, *((i, refused(1)) for i in ids)) for _ in range(4)))
    for intent_id in ids:
        assert await rig.rules(intent_id) == ["test.refused", "policy.retry"]


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
    assert await tasks(rig) == []


async def test_a_person_is_told_once_of_each_cause(rig: Rig) -> None:
    ids = await rig.opened(6)
    await entries_of(rig, *((i, refused(1, final=True)) for i in ids[:3]))
    await entries_of(rig, *((i, refused(1, final=True)) for i in ids[3:5]))
    await entries_of(rig, (ids[5], refused(1, final=True, rule="test.other")))
    assert await tasks(rig) == ["failed test.other", "failed test.refused"]


async def test_a_configuration_fault_pauses_once_and_fails_nobody(rig: Rig) -> None:
    ids = await rig.opened(4)
    fault = refused(1, final=True, scope=Scope.SENDER, rule="test.unregistered")
    await entries_of(rig, *((i, fault) for i in ids[:2]))
    await entries_of(rig, *((i, fault) for i in ids[2:]))
    assert await paused(rig) == ["sender:mail/office"]
    assert await tasks(rig) == ["paused test.unregistered"]
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
    assert await tasks(rig) == ["paused test.refused"]


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
    assert await tasks(rig) == ["failed policy.exhausted"]


async def test_faults_of_ours_cost_no_budget_and_end_in_a_hold(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    for number in range(1, POLICY.attempts_hard_max):
        await rig.record(intent_id, refused(number, scope=Scope.CHANNEL))
        await rig.open_next(intent_id)
    await rig.record(intent_id, refused(POLICY.attempts_hard_max, scope=Scope.CHANNEL))
    row = await rig.delivery(intent_id)
    assert (row["status"], row["awaits"], row["spent"]) == ("deferred", "release", 0)
    assert await tasks(rig) == ["held policy.attempts-hard-max"]


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
