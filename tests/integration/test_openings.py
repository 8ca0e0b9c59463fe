"""Openings: nothing goes that a guard forbids, and an unknown COMMIT is read again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

import ledger_rig
from findings import accepted, refused
from ledger_rig import LONG_AGO, Rig, fingerprint
from lost_commit import cut_at_commit
from sendledger.journal import scopes as pausing
from sendledger.journal.open import find_opened, open_attempts
from sendledger.store import side_effects
from sendledger.store.attempts import DISPATCH_LOCK
from sendledger.store.database import DatabaseAway
from sendledger.store.deliveries import Claimed
from sendledger.store.scopes import NewPause, begin_pause
from sendledger.store.side_effects import NewSuppression


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig
        assert await rig.verify() == []


# --- guards ------------------------------------------------------------------------------------


async def claimed(rig: Rig, **plan: Any) -> tuple[Claimed, UUID]:
    await rig.plan(**plan)
    [claim] = await rig.claim()
    return claim


async def untouched(rig: Rig, row: Claimed) -> bool:
    attempts = await rig.attempts(row.intent_id)
    return not attempts and await rig.stands(row.intent_id) == ("planned", "dispatch")


async def test_an_opening_moves_the_row_and_makes_its_attempt_in_one_commit(rig: Rig) -> None:
    row, token = await claimed(rig)
    assert await rig.open(rig.opening(row, token)) == {row.intent_id}
    [attempt] = await rig.attempts(row.intent_id)
    delivery = await rig.delivery(row.intent_id)
    assert (attempt.number, attempt.seq, attempt.policy_revision) == (1, 1, "test-1")
    assert (delivery["status"], delivery["awaits"], delivery["seq"]) == ("submitting", "result", 1)
    assert delivery["due_at"] == attempt.result_due_at
    assert attempt.result_due_at - attempt.opened_at == rig.terms.handoff_max
    assert attempt.window_ends_at - attempt.opened_at == rig.terms.window


async def test_a_group_opens_what_may_go_and_nothing_else(rig: Rig) -> None:
    await rig.plan(3)
    claims = await rig.claim(3)
    openings = [rig.opening(row, token) for row, token in claims]
    late = openings[1]._replace(go_until=LONG_AGO)
    opened = await rig.open(openings[0], late, openings[2])
    assert opened == {openings[0].intent_id, openings[2].intent_id}
    assert await untouched(rig, claims[1][0])


async def test_a_wrong_token_opens_nothing(rig: Rig) -> None:
    row, _ = await claimed(rig)
    assert await rig.open(rig.opening(row, uuid4())) == set()
    assert await untouched(rig, row)


async def test_a_seq_that_has_passed_opens_nothing(rig: Rig) -> None:
    row, token = await claimed(rig)
    assert await rig.open(rig.opening(row, token, seq=row.seq + 1)) == set()
    assert await untouched(rig, row)


async def test_a_verdict_that_holds_no_longer_opens_nothing(rig: Rig) -> None:
    row, token = await claimed(rig)
    assert await rig.open(rig.opening(row, token, go_until=LONG_AGO)) == set()
    assert await untouched(rig, row)


async def test_a_row_past_its_last_instant_opens_nothing(rig: Rig) -> None:
    row, token = await claimed(rig, not_after=LONG_AGO + timedelta(days=1))
    assert await rig.open(rig.opening(row, token)) == set()
    assert await untouched(rig, row)


@pytest.mark.parametrize("lease_s", [-1, 9], ids=["ended", "shorter-than-the-margin"])
async def test_a_lease_that_is_too_short_opens_nothing(rig: Rig, lease_s: int) -> None:
    await rig.plan()
    [(row, token)] = await rig.claim(lease=timedelta(seconds=lease_s))
    assert await rig.open(rig.opening(row, token)) == set()
    assert await untouched(rig, row)


@pytest.mark.parametrize("scope_key", ledger_rig.scope_keys())
async def test_a_pause_of_any_scope_opens_nothing(rig: Rig, scope_key: str) -> None:
    row, token = await claimed(rig)
    await pausing.pause(rig.database, scope_key, actor="clerk")
    assert await rig.open(rig.opening(row, token)) == set()
    assert await untouched(rig, row)
    await pausing.resume(rig.recorder, scope_key, channels=["mail"], actor="clerk")
    assert await rig.open(rig.opening(row, token)) == {row.intent_id}


@pytest.mark.parametrize(
    ("person", "scope_key", "opens"),
    [
        (0, "channel:mail", False),
        (0, "sender:mail/office", False),
        (0, "sender:mail/elsewhere", True),
        (1, "channel:mail", True),
    ],
    ids=["destination", "pair", "pair-with-another-sender", "another-destination"],
)
async def test_a_suppressed_destination_opens_nothing(
    rig: Rig, person: int, scope_key: str, opens: bool
) -> None:
    [intent_id] = await rig.opened(report="before")
    await rig.record(intent_id, refused(1, final=True))
    row, token = await claimed(rig)
    await suppress(rig, intent_id, fingerprint(person), scope_key)
    assert (await rig.open(rig.opening(row, token)) == {row.intent_id}) is opens
    assert (await untouched(rig, row)) is not opens


async def suppress(rig: Rig, intent_id: int, destination: bytes, scope_key: str) -> None:
    standing = NewSuppression(
        destination_fingerprint=destination,
        scope_key=scope_key,
        rule="test.suppress",
        intent_id=intent_id,
        seq=2,
    )
    async with rig.database.connection() as connection:
        await side_effects.add_suppressions(connection, [standing])


@pytest.mark.parametrize("column", ["expires_at", "lifted_at"])
async def test_a_suppression_that_is_over_stops_nobody(rig: Rig, column: str) -> None:
    [intent_id] = await rig.opened(report="before")
    await rig.record(intent_id, refused(1, final=True))
    row, token = await claimed(rig)
    await suppress(rig, intent_id, fingerprint(0), "channel:mail")
    by = ", lifted_by = 'clerk'" if column == "lifted_at" else ""
    await rig.run(f"UPDATE sendledger.suppression SET {column} = now(){by}")
    assert await rig.open(rig.opening(row, token)) == {row.intent_id}


async def test_an_attempt_without_its_decision_is_refused_by_the_database(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, refused(1))
    await rig.run("UPDATE sendledger.delivery SET wake_at = %s", LONG_AGO)
    [(row, token)] = await rig.claim()
    assert row.decision_seq == 3
    with pytest.raises(Exception, match="violates check constraint"):
        await rig.open(rig.opening(row, token)._replace(decision_seq=None))
    assert await rig.open(rig.opening(row, token)) == {intent_id}


async def test_a_pause_waits_for_the_openings_under_way(rig: Rig) -> None:
    row, token = await claimed(rig)
    async with rig.database.transaction() as connection:
        await connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", [DISPATCH_LOCK])
        pause = asyncio.create_task(pausing.pause(rig.database, "all", actor="clerk"))
        await rig.until_somebody_waits()
        assert not pause.done()
    assert await pause
    assert await rig.open(rig.opening(row, token)) == set()


async def test_an_opening_that_waited_for_a_pause_sees_it(rig: Rig) -> None:
    row, token = await claimed(rig)
    async with rig.database.transaction() as connection:
        pause = NewPause(scope_key="all", rule="operator.paused", began_by="clerk")
        await begin_pause(connection, pause)
        opening = asyncio.create_task(rig.open(rig.opening(row, token)))
        await rig.until_somebody_waits()
    assert await opening == set()
    assert await untouched(rig, row)


# --- an unknown COMMIT -----------------------------------------------------------------------


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not-applied"])
async def test_an_opening_whose_commit_is_unknown_is_read_again(
    rig: Rig, shared_database: str, applied: bool
) -> None:
    row, token = await claimed(rig)
    opening = rig.opening(row, token)
    async with cut_at_commit(shared_database, applied=applied) as through:
        with pytest.raises(DatabaseAway):
            await open_attempts(through, [opening], rig.terms)
        assert await find_opened(through, [opening]) == ({row.intent_id} if applied else set())
    assert len(await rig.attempts(row.intent_id)) == applied


async def test_an_opening_tried_again_after_an_unknown_commit_makes_no_second_attempt(
    rig: Rig, shared_database: str
) -> None:
    row, token = await claimed(rig)
    async with cut_at_commit(shared_database, applied=True) as through:
        lost = Rig(database=through, recorder=rig.recorder)
        with pytest.raises(DatabaseAway):
            await lost.open(rig.opening(row, token))
        assert await lost.open(rig.opening(row, token)) == set()
    assert len(await rig.attempts(row.intent_id)) == 1


async def test_what_another_worker_opened_is_not_taken_for_ours(rig: Rig) -> None:
    row, token = await claimed(rig)
    assert await rig.open(rig.opening(row, token)) == {row.intent_id}
    assert await find_opened(rig.database, [rig.opening(row, uuid4())]) == set()


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not-applied"])
async def test_a_result_whose_commit_is_unknown_is_recorded_once(
    rig: Rig, shared_database: str, applied: bool
) -> None:
    [intent_id] = await rig.opened()
    async with cut_at_commit(shared_database, applied=applied) as through:
        lost = Rig(database=through, recorder=replace(rig.recorder, database=through))
        with pytest.raises(DatabaseAway):
            await lost.record(intent_id, accepted(1))
        again = await lost.record(intent_id, accepted(1))
        assert bool(again.added) is not applied
    assert await rig.rules(intent_id) == ["default.2yz"]
    assert await rig.stands(intent_id) == ("submitted", "evidence")
