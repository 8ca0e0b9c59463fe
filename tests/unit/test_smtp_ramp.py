"""Room for sessions grows while they serve, halves at a fault, and is given in the order asked for."""

from __future__ import annotations

import asyncio

import pytest

from sendledger.plugin import Evidence, SessionRefused
from sendledger_smtp.ramp import START, Ramp

AWAY = Evidence(stage="connect", handed_over=False, answered=False, fault="refused")


def serve(ramp: Ramp, times: int) -> None:
    for _ in range(times):
        ramp.succeeded()


async def inside(ramp: Ramp, callers: int) -> list[asyncio.Task[None]]:
    """Let so many ask for a place, and come to a rest."""
    tasks = [asyncio.create_task(ramp.enter()) for _ in range(callers)]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


def count(tasks: list[asyncio.Task[None]]) -> int:
    return sum(task.done() for task in tasks)


@pytest.mark.parametrize(("most", "start"), [(1, 1), (3, 3), (5, 5), (50, START)])
async def test_few_sessions_are_let_in_at_first(most: int, start: int) -> None:
    tasks = await inside(Ramp(most), 60)
    assert count(tasks) == start
    for task in tasks:
        task.cancel()


async def test_one_more_is_let_in_for_each_round_of_successes_up_to_the_maximum() -> None:
    ramp = Ramp(7)
    tasks = await inside(ramp, 8)
    serve(ramp, 4)
    assert ramp.limit == 5
    serve(ramp, 1)
    assert ramp.limit == 6
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert count(tasks) == 6
    serve(ramp, 100)
    assert ramp.limit == 7
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert count(tasks) == 7
    tasks[-1].cancel()


def test_a_fault_halves_once_for_all_that_were_lent_before_it() -> None:
    ramp = Ramp(50)
    serve(ramp, 5 + 6 + 7)
    assert ramp.limit == 8
    lent = ramp.cuts
    for _ in range(8):
        ramp.faulted(lent)
    assert ramp.limit == 4
    ramp.faulted(ramp.cuts)
    ramp.faulted(ramp.cuts)
    ramp.faulted(ramp.cuts)
    assert ramp.limit == 1
    serve(ramp, 1 + 2 + 3)
    assert ramp.limit == 4


def test_a_fault_ends_a_run_of_successes() -> None:
    ramp = Ramp(50)
    serve(ramp, 4)
    ramp.faulted(ramp.cuts)
    serve(ramp, 1)
    assert ramp.limit == 2


async def test_after_a_cut_nobody_is_let_in_until_enough_have_left() -> None:
    ramp = Ramp(4)
    tasks = await inside(ramp, 5)
    ramp.faulted(ramp.cuts)
    for left in range(1, 4):
        ramp.leave()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert count(tasks) == (5 if left == 3 else 4)


async def test_places_are_given_in_the_order_asked_for() -> None:
    ramp = Ramp(1)
    order: list[int] = []

    async def visit(number: int) -> None:
        await ramp.enter()
        order.append(number)
        await asyncio.sleep(0)
        ramp.leave()

    await asyncio.gather(*map(visit, range(20)))
    assert order == list(range(20))


@pytest.mark.parametrize("turns", range(4))
async def test_whoever_gives_up_takes_no_place(turns: int) -> None:
    ramp = Ramp(1)
    await ramp.enter()
    [gives_up, stays] = await inside(ramp, 2)
    ramp.leave()
    for _ in range(turns):
        await asyncio.sleep(0)
    gives_up.cancel()
    [how, _] = await asyncio.gather(
        gives_up, _leaving_if_given(ramp, gives_up, stays), return_exceptions=True
    )
    assert how is None or isinstance(how, asyncio.CancelledError)
    ramp.leave()
    async with asyncio.timeout(5):
        await ramp.enter()


async def _leaving_if_given(ramp: Ramp, one: asyncio.Task[None], other: asyncio.Task[None]) -> None:
    """Give the first one's place on, if it got one, and wait for the second's."""
    await asyncio.wait([one])
    if not one.cancelled():
        ramp.leave()
    await other


async def test_all_who_wait_can_be_told_that_no_session_is_to_be_had() -> None:
    ramp = Ramp(1)
    [first, *waiting] = await inside(ramp, 4)
    waiting[1].cancel()
    ramp.refuse(AWAY)
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(end) for end in ends] == [SessionRefused, asyncio.CancelledError, SessionRefused]
    await first
    ramp.leave()
    async with asyncio.timeout(5):
        await ramp.enter()
