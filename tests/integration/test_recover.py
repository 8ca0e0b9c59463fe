"""Recovery: what a dead or sleeping worker leaves is claimable or recorded as unknown, never sent again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

import ledger_rig
from findings import accepted, refused
from ledger_rig import LEASE, Rig
from sendledger.journal.advance import Advance, Entry
from sendledger.ledger.words import Source
from sendledger.store import deliveries
from sendledger.work.proposals import lost

AT_ONCE = timedelta(0)
LATER = timedelta(hours=1)


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig
        assert await rig.verify() == []


def soon() -> datetime:
    return datetime.now(UTC) + LATER


async def free(
    rig: Rig, *, lease: timedelta = AT_ONCE, rows_max: int = 100, now: datetime | None = None
) -> int:
    async with rig.database.connection() as connection:
        return await deliveries.free_expired_claims(
            connection, lease=lease, rows_max=rows_max, now=now
        )


async def find_lost(
    rig: Rig, *, lease: timedelta = AT_ONCE, now: datetime | None = None
) -> list[tuple[int, int]]:
    async with rig.database.connection() as connection:
        return await deliveries.find_lost_attempts(connection, lease=lease, rows_max=100, now=now)


async def recover(rig: Rig) -> list[Advance]:
    """Do what the sweep does about attempts that nobody works at."""
    found = await find_lost(rig)
    return await rig.recorder.record([Entry(intent_id=i, propose=lost) for i, _ in found])


# --- nothing was opened ----------------------------------------------------------------------


async def test_a_claim_that_opened_nothing_is_claimable_again_and_counts(rig: Rig) -> None:
    [intent_id] = await rig.plan()
    await rig.claim()
    await rig.expire_leases()
    assert await rig.claim() == []
    assert await free(rig) == 1
    [(row, _)] = await rig.claim()
    assert (row.intent_id, row.claims, row.seq) == (intent_id, 2, 0)
    assert await find_lost(rig) == []


async def test_a_running_lease_is_left_alone(rig: Rig) -> None:
    await rig.plan(2)
    [(row, token), _] = await rig.claim(2)
    await rig.open(rig.opening(row, token))
    assert await free(rig) == 0
    assert await find_lost(rig) == []


async def test_no_more_claims_are_freed_than_asked(rig: Rig) -> None:
    await rig.plan(5)
    await rig.claim(5)
    await rig.expire_leases()
    assert [await free(rig, rows_max=2) for _ in range(4)] == [2, 2, 1, 0]


# --- an attempt was opened -------------------------------------------------------------------


async def test_an_open_attempt_whose_lease_ended_is_unknown(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.expire_leases()
    assert await free(rig) == 0
    assert await find_lost(rig) == [(intent_id, 1)]
    await recover(rig)
    [attempt] = await rig.attempts(intent_id)
    [observation] = await rig.observations(intent_id)
    row = await rig.delivery(intent_id)
    assert (observation.source, observation.identity) == (Source.LEASE, "lease/1")
    assert (row["status"], row["awaits"]) == ("ambiguous", "evidence")
    assert row["due_at"] == attempt.unknown_due_at
    assert await find_lost(rig) == []


async def test_an_unknown_attempt_is_never_claimed_again_by_itself(rig: Rig) -> None:
    await rig.opened()
    await rig.expire_leases()
    await recover(rig)
    assert await rig.claim(now=soon()) == []


async def test_an_overdue_result_is_found_although_its_lease_is_renewed(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    after_its_result = datetime.now(UTC) + rig.terms.handoff_max + timedelta(minutes=1)
    await rig.run("UPDATE sendledger.delivery SET lease_until = %s", after_its_result + LEASE)
    assert await find_lost(rig, now=after_its_result) == [(intent_id, 1)]


async def test_recovering_twice_records_once(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.expire_leases()
    found = await find_lost(rig)
    for _ in range(2):
        await rig.recorder.record([Entry(intent_id=i, propose=lost) for i, _ in found])
    assert await rig.rules(intent_id) == ["lease.expired"]


async def test_a_second_attempt_is_lost_under_its_own_number(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, refused(1))
    await rig.open_next(intent_id)
    await rig.expire_leases()
    await recover(rig)
    assert (await rig.observations(intent_id))[-1].identity == "lease/2"


async def test_a_result_that_came_before_the_sweep_looked_again_wins(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.expire_leases()
    found = await find_lost(rig)
    await rig.record(intent_id, accepted(1))
    await rig.recorder.record([Entry(intent_id=i, propose=lost) for i, _ in found])
    assert await rig.rules(intent_id) == ["default.2yz"]


# --- the server was away ---------------------------------------------------------------------


async def test_nothing_is_recovered_within_one_lease_of_the_start_of_the_server(rig: Rig) -> None:
    opened = await rig.opened()
    await rig.plan(report="unopened")
    await rig.claim()
    await rig.expire_leases()
    [start] = await rig.rows("SELECT pg_postmaster_start_time() AS at")
    in_a_lease = datetime.now(UTC) - start["at"] + LATER
    assert await free(rig, lease=in_a_lease) == 0
    assert await find_lost(rig, lease=in_a_lease) == []
    after = start["at"] + in_a_lease + timedelta(seconds=1)
    assert await free(rig, lease=in_a_lease, now=after) == 1
    assert await find_lost(rig, lease=in_a_lease, now=after) == [(opened[0], 1)]


# --- a worker that was only asleep -----------------------------------------------------------


async def test_a_worker_that_slept_through_its_lease_opens_nothing(rig: Rig) -> None:
    [intent_id] = await rig.plan()
    [(stale, stale_token)] = await rig.claim()
    await rig.expire_leases()
    await free(rig)
    [(row, token)] = await rig.claim()
    assert await rig.open(rig.opening(stale, stale_token)) == set()
    assert await rig.open(rig.opening(row, token)) == {intent_id}
    assert await rig.open(rig.opening(stale, stale_token)) == set()
    assert len(await rig.attempts(intent_id)) == 1


async def test_a_worker_that_slept_cannot_renew_or_give_back_what_is_not_its_own(rig: Rig) -> None:
    [intent_id] = await rig.plan()
    [(_, stale_token)] = await rig.claim()
    await rig.expire_leases()
    await free(rig)
    [(_, token)] = await rig.claim()
    async with rig.database.connection() as connection:
        renewed = await deliveries.renew_leases(connection, [stale_token], lease=LEASE)
        released = await deliveries.release_claims(connection, [(intent_id, stale_token)])
    assert (renewed, released) == (0, 0)
    assert (await rig.delivery(intent_id))["claim_token"] == token


async def test_what_a_sleeper_saw_after_all_is_folded_into_its_own_attempt(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.expire_leases()
    await recover(rig)
    assert not await rig.record_fast(intent_id, 2, accepted(1))
    await rig.record(intent_id, accepted(1))
    assert await rig.rules(intent_id) == ["lease.expired", "default.2yz"]
    assert await rig.stands(intent_id) == ("submitted", "evidence")
    assert len(await rig.attempts(intent_id)) == 1
