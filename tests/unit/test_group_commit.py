"""Group commit: who comes while a commit is under way waits for the next, or for one beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from sendledger.journal.group import QUIET_TURNS, GroupCommit


class Disk:
    """Commits when it is told to; remembers each group in the order of its start."""

    def __init__(self) -> None:
        self.begun: list[list[int]] = []
        self.free = asyncio.Semaphore(0)

    async def commit(self, group: Sequence[int]) -> list[int]:
        self.begun.append(list(group))
        await self.free.acquire()
        return [-item for item in group]


@asynccontextmanager
async def running(commits: GroupCommit[int, int]) -> AsyncIterator[None]:
    task = asyncio.create_task(commits.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def settled() -> None:
    """Let everybody go on until all of them wait."""
    for _ in range(3 * QUIET_TURNS):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("at_once", "begun"), [(1, [[1]]), (2, [[1], [2]]), (3, [[1], [2], [3, 4]])]
)
async def test_no_more_groups_are_under_way_than_may_be(
    at_once: int, begun: list[list[int]]
) -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit, group_max=10, at_once=at_once)
    async with running(commits):
        answers = []
        for items in ([1], [2], [3, 4]):
            answers += [asyncio.create_task(commits.add(item)) for item in items]
            await settled()
        assert disk.begun == begun
        for _ in range(4):
            disk.free.release()
        assert await asyncio.gather(*answers) == [-1, -2, -3, -4]
    assert [item for group in disk.begun for item in group] == [1, 2, 3, 4]


async def test_a_group_is_full_at_its_maximum_and_the_rest_comes_next() -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit, group_max=2, at_once=2)
    answers = [asyncio.create_task(commits.add(item)) for item in range(5)]
    await settled()
    async with running(commits):
        await settled()
        assert disk.begun == [[0, 1], [2, 3]]
        disk.free.release()
        await settled()
        assert disk.begun == [[0, 1], [2, 3], [4]]
        for _ in range(2):
            disk.free.release()
        assert await asyncio.gather(*answers) == [0, -1, -2, -3, -4]


async def test_whoever_comes_within_a_few_turns_of_the_loop_joins_the_group() -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit, group_max=10)
    async with running(commits):
        answers = []
        for item in range(3):
            answers.append(asyncio.create_task(commits.add(item)))
            for _ in range(QUIET_TURNS // 2):
                await asyncio.sleep(0)
        assert disk.begun == []
        await settled()
        assert disk.begun == [[0, 1, 2]]
        disk.free.release()
        assert await asyncio.gather(*answers) == [0, -1, -2]


async def test_what_is_under_way_when_it_is_cancelled_is_committed_to_its_end() -> None:
    disk = Disk()
    commits = GroupCommit(disk.commit, group_max=2, at_once=2)
    async with running(commits):
        answers = [asyncio.create_task(commits.add(item)) for item in (1, 2)]
        await settled()
    disk.free.release()
    disk.free.release()
    assert await asyncio.gather(*answers) == [-1, -2]
