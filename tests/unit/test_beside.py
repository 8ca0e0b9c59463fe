"""Beside: one step at a time, and none that outlives its block or fails unheard."""

from __future__ import annotations

import asyncio

import pytest

from sendledger.journal.beside import Beside


async def test_a_step_runs_while_the_block_goes_on_and_ends_before_it_is_left() -> None:
    seen: list[str] = []
    go = asyncio.Event()

    async def step() -> None:
        seen.append("begun")
        await go.wait()
        seen.append("ended")

    async with Beside() as beside:
        await beside.start(step)
        await beside.turn()
        seen.append("went on")
        go.set()
    assert seen == ["begun", "went on", "ended"]


async def test_the_next_step_waits_for_the_one_before() -> None:
    running = 0

    async def step() -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0)
        running -= 1

    async with Beside() as beside:
        for _ in range(5):
            await beside.start(step)
    assert running == 0


async def fail() -> None:
    raise LookupError


async def test_the_error_of_a_step_ends_the_block_at_the_next_turn() -> None:
    async def go_on() -> None:
        async with Beside() as beside:
            await beside.start(fail)
            for _ in range(3):
                await beside.turn()
            pytest.fail("the block went on")

    with pytest.raises(LookupError):
        await go_on()


async def test_the_error_of_the_last_step_is_told_when_the_block_is_left() -> None:
    with pytest.raises(LookupError):
        async with Beside() as beside:
            await beside.start(fail)


async def test_an_error_of_the_block_ends_the_step_and_is_the_one_that_is_told() -> None:
    ended = asyncio.Event()

    async def step() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
            raise KeyError

    async def stumble() -> None:
        async with Beside() as beside:
            await beside.start(step)
            await beside.turn()
            raise LookupError

    with pytest.raises(LookupError) as caught:
        await stumble()
    assert type(caught.value) is LookupError
    assert ended.is_set()
