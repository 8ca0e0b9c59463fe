"""Lanes within a worker: transactional rows go first, and bulk rows are never starved for them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendledger.ledger.limits import Limits
from sendledger.ledger.words import Lane
from sendledger.store.deliveries import Claimed
from sendledger.work.lanes import BULK_EVERY, LaneQueue
from sendledger.work.lineup import DOMAINS_MAX, LineUp
from sendledger.work.ready import Ready
from sendledger.work.turns import HORIZON

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
LANES = st.lists(st.sampled_from(Lane), min_size=1, max_size=60)


class Plain:
    """Writes nothing."""

    def write(self, _addressee: object) -> bytes:
        return b""


def row(lane: Lane = Lane.BULK, number: int = 1, domain: bytes | None = None) -> Claimed:
    return Claimed(
        intent_id=number,
        batch_id=1,
        wake_at=NOW,
        status="planned",
        seq=0,
        decision_seq=None,
        attempt_count=0,
        claims=1,
        claimed_at=NOW,
        intent_key=bytes(16),
        eligible_at=NOW,
        not_after=None,
        destination_fingerprint=bytes(16),
        domain_key=domain,
        content_id=1,
        purpose="news",
        lane=lane,
        scope_keys=["all"],
        destination=None,
        variables=None,
        paused_scope=None,
        closed_until=None,
        suppressions=None,
    )


def ready(lane: Lane, number: int = 1) -> Ready:
    return Ready(claimed=row(lane, number), claim_token=UUID(int=1), go_until=NOW, writer=Plain())


def filled(*lanes: Lane) -> LaneQueue:
    queue = LaneQueue()
    for number, lane in enumerate(lanes):
        queue.put(ready(lane, number))
    return queue


async def take(queue: LaneQueue, count: int) -> list[Lane]:
    found = [await queue.get() for _ in range(count)]
    return [Lane(one.claimed.lane) for one in found if one is not None]


# --- the queue of a worker ---------------------------------------------------------------------


async def test_transactional_rows_go_first_and_one_row_of_every_eight_is_bulk_all_the_same() -> (
    None
):
    queue = filled(*[Lane.BULK] * 20, *[Lane.TRANSACTIONAL] * 20)
    eight = [Lane.TRANSACTIONAL] * (BULK_EVERY - 1) + [Lane.BULK]
    assert await take(queue, 2 * BULK_EVERY) == eight * 2


@given(LANES)
def test_every_row_is_taken_once_and_within_a_lane_in_order(lanes: list[Lane]) -> None:
    async def taken() -> list[Ready]:
        queue = filled(*lanes)
        return [found for _ in lanes if (found := await queue.get()) is not None]

    found = asyncio.run(taken())
    for lane in Lane:
        wanted = [number for number, one in enumerate(lanes) if one is lane]
        assert [one.claimed.intent_id for one in found if one.claimed.lane == lane] == wanted


@given(LANES)
def test_no_lane_waits_longer_than_eight_takes_of_the_other(lanes: list[Lane]) -> None:
    async def taken() -> list[Lane]:
        return await take(filled(*lanes), len(lanes))

    found = asyncio.run(taken())
    bulk = lanes.count(Lane.BULK)
    for start in range(len(found) - BULK_EVERY + 1):
        if found[:start].count(Lane.BULK) < bulk:
            assert Lane.BULK in found[start : start + BULK_EVERY]


async def test_a_slot_that_waits_is_woken_by_a_row_and_by_the_end() -> None:
    queue = LaneQueue()
    slots = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.put(ready(Lane.BULK, 7))
    done, waiting = await asyncio.wait(slots, return_when=asyncio.FIRST_COMPLETED, timeout=5)
    assert [found.claimed.intent_id for slot in done if (found := slot.result())] == [7]
    queue.close()
    assert await asyncio.gather(*waiting) == [None, None]


async def test_a_row_is_not_lost_with_a_slot_that_was_cancelled_while_it_waited() -> None:
    queue = LaneQueue()
    gone, stays = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    queue.put(ready(Lane.BULK, 7))
    async with asyncio.timeout(5):
        found = await stays
    assert found is not None
    assert gone.cancelled()


async def test_what_nobody_has_taken_can_be_taken_out_at_once() -> None:
    queue = filled(Lane.BULK, Lane.TRANSACTIONAL, Lane.BULK)
    assert len(queue.drain()) == 3
    assert len(queue) == queue.waiting(Lane.BULK) == 0
    queue.close()
    assert await queue.get() is None


# --- rows that met a full domain ---------------------------------------------------------------


def test_rows_of_a_full_domain_come_again_as_places_become_free() -> None:
    """With two places and handoffs of a second, one every half a second."""
    line = LineUp(Limits(domain_in_flight=2))
    for _ in range(200):
        line.lasted(timedelta(seconds=1))
    waits = [(line.again_at(row(domain=b"a")) - NOW).total_seconds() for _ in range(4)]
    assert waits == pytest.approx([0.5, 1.0, 1.5, 2.0], rel=1e-3)


def test_each_domain_has_a_line_of_its_own_and_none_reaches_further_than_the_horizon() -> None:
    line = LineUp(Limits(domain_in_flight=1))
    for _ in range(100):
        line.lasted(timedelta(hours=2))
    assert line.again_at(row(domain=b"a")) == line.again_at(row(domain=b"b")) == NOW + HORIZON


def test_lines_are_forgotten_before_they_are_too_many() -> None:
    line = LineUp(Limits(domain_in_flight=1))
    for number in range(2 * DOMAINS_MAX):
        line.again_at(row(domain=number.to_bytes(8)))
    assert len(line._tails) <= DOMAINS_MAX


def test_slots_rest_each_a_different_part_of_a_second_when_all_is_full() -> None:
    line = LineUp(Limits(in_flight=1))
    rests = [line.rest(timedelta(seconds=2), chance).total_seconds() for chance in (0, 0.5, 1)]
    assert rests == [0.125, 0.25, 0.375]
