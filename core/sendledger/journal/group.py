"""Group commit: what comes in while one commit is under way goes into the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

QUIET_TURNS = 8
"""How often the loop turns without a new item before a group is committed."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class GroupCommit(Generic[Item, Answer]):
    """Hands items to *commit* in groups of at most *group_max*, in order.

    *commit* answers each item of its group in order; when it raises, everyone in the group gets the
    error. A lone item is committed after a few turns of the loop. At most *at_once* groups are under way:
    one, where what comes first must be committed first. *counted* is told the size of each group.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        group_max: int,
        at_once: int = 1,
        counted: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._commit = commit
        self._counted = counted
        self._group_max = group_max
        self._at_once = at_once
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._filled = asyncio.Event()
        self.groups = 0
        self.items = 0

    async def add(self, item: Item) -> Answer:
        """Commit *item* with whatever else is waiting, and return its answer."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._filled.set()
        return await future

    async def run(self) -> None:
        """Commit groups until cancelled; a group under way is committed to its end."""
        async with asyncio.TaskGroup() as lanes:
            for _ in range(self._at_once):
                lanes.create_task(self._commit_groups())

    async def _commit_groups(self) -> None:
        while True:
            await self._filled.wait()
            await self._gather()
            group, self._waiting = (
                self._waiting[: self._group_max],
                self._waiting[self._group_max :],
            )
            if not self._waiting:
                self._filled.clear()
            if group:  # another lane, woken by the same item, may have taken it
                await asyncio.shield(self._settle(group))

    async def _gather(self) -> None:
        """Let whoever is about to come join, until the loop has turned some times and nobody did.

        A commit costs the server as much as twenty of its items, so small groups are what it would spend
        its time on. A turn of an idle loop takes microseconds; a busy one has its items in the making.
        """
        quiet = 0
        while quiet < QUIET_TURNS and len(self._waiting) < self._group_max:
            waiting = len(self._waiting)
            await asyncio.sleep(0)
            quiet = 0 if len(self._waiting) > waiting else quiet + 1

    async def _settle(self, group: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        self.groups += 1
        self.items += len(group)
        self._counted(len(group))
        try:
            answers = await self._commit([item for item, _ in group])
        except Exception as error:  # noqa: BLE001 - it is everyone's error, and theirs to judge
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
        else:
            for (_, future), answer in zip(group, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
