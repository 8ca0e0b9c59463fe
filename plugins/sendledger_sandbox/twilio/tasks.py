"""Work that outlives the request that began it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

Result = TypeVar("Result")


class Tasks:
    """Tasks that run until they end or until they are all stopped; *faults* is what they raised."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[object]] = set()
        self.faults: list[BaseException] = []

    def begin(self, work: Coroutine[None, None, Result]) -> asyncio.Task[Result]:
        """Run one more."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._end)
        return task

    async def at_rest(self) -> None:
        """Wait until none is running any more."""
        while self._running:
            await asyncio.wait(self._running)

    async def stop(self) -> None:
        """Cancel all of them where they are."""
        for task in self._running:
            task.cancel()
        await self.at_rest()

    def _end(self, task: asyncio.Task[object]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.faults.append(fault)
