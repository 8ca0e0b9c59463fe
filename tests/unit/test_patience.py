"""Patience: a wait ends in time, all can be cut short, and a cancellation stays a cancellation."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from sendledger.work.patience import Patience

SHORT = timedelta(milliseconds=1)
LONG = timedelta(hours=1)


async def never() -> None:
    await asyncio.Event().wait()


async def waits(patience: Patience) -> str:
    try:
        with patience.wait():
            await never()
    except TimeoutError:
        return "too long"
    raise AssertionError("never came")


async def test_a_wait_that_takes_too_long_ends_in_a_timeout() -> None:
    assert await waits(Patience(SHORT)) == "too long"


async def test_one_timer_ends_every_wait_under_way_and_those_that_come_later() -> None:
    patience = Patience(SHORT)
    for _ in range(2):
        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(waits(patience)) for _ in range(3)]
        assert [task.result() for task in waiting] == ["too long"] * 3


async def test_a_wait_that_ended_in_time_leaves_the_timer_to_the_next() -> None:
    patience = Patience(SHORT)
    with patience.wait():
        pass
    assert await waits(patience) == "too long"


@pytest.mark.parametrize("longest", [None, LONG])
async def test_patience_that_is_lost_ends_what_waits(longest: timedelta | None) -> None:
    patience = Patience(longest)
    waiting = [asyncio.ensure_future(waits(patience)) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    patience.lose()
    assert await asyncio.gather(*waiting) == ["too long"] * 2


@pytest.mark.parametrize("longest", [None, LONG])
async def test_once_patience_is_lost_nothing_is_waited_for(longest: timedelta | None) -> None:
    patience = Patience(longest)
    patience.lose()
    assert await waits(patience) == "too long"


async def test_what_needs_no_wait_is_done_even_without_patience() -> None:
    patience = Patience(None)
    patience.lose()
    done = False
    with patience.wait():
        done = True
    await asyncio.sleep(0)
    assert done


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    waiting = asyncio.ensure_future(waits(Patience(LONG)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_cancellation_that_comes_with_the_end_of_patience_stays_one() -> None:
    patience = Patience(LONG)
    waiting = asyncio.ensure_future(waits(patience))
    await asyncio.sleep(0)
    waiting.cancel()
    patience.lose()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_an_error_inside_passes_through() -> None:
    with pytest.raises(LookupError), Patience(LONG).wait():
        raise LookupError
