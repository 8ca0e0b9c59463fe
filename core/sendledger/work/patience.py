"""How long is waited: limits of one length, which can all be cut short."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import TracebackType


class Patience:
    """Limits waits to *longest*, where None is as long as it takes.

    Two waits are made for each delivery, so one timer serves all that are under way: they are of one
    length, and the oldest ends first.
    """

    def __init__(self, longest: timedelta | None) -> None:
        self._longest_s = None if longest is None else longest.total_seconds()
        self._waits: dict[Wait, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.lost = False

    def wait(self) -> Wait:
        """Return a context whose block raises ``TimeoutError`` when it takes too long."""
        return Wait(self)

    def lose(self) -> None:
        """End all waits under way now, and those to come as soon as they wait for anything."""
        self.lost = True
        for wait in list(self._waits):
            wait.end()

    def began(self, wait: Wait) -> None:
        """Count the time of *wait* from now on."""
        loop = asyncio.get_running_loop()
        self._waits[wait] = ends_at = loop.time() + (self._longest_s or 0.0)
        if self.lost:
            loop.call_soon(wait.end)
        elif self._timer is None and self._longest_s is not None:
            self._timer = loop.call_at(ends_at, self._ring)

    def ended(self, wait: Wait) -> None:
        """Count no longer; the timer is left to ring, and finds whoever is the oldest then."""
        del self._waits[wait]

    def _ring(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for wait, ends_at in list(self._waits.items()):
            if ends_at > now:
                self._timer = loop.call_at(ends_at, self._ring)
                return
            wait.end()


class Wait:
    """One limited wait of one task; a cancellation from elsewhere passes through it untouched."""

    __slots__ = ("_cancelled_before", "_over", "_patience", "_task")

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._over = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[object] | None = task
        self._cancelled_before = task.cancelling()
        self._patience.began(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        self._patience.ended(self)
        if not self._over or task is None:
            return
        if task.uncancel() <= self._cancelled_before and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def end(self) -> None:
        """Wake the task, which finds its time over; harmless when it waits no more."""
        if self._task is not None and not self._over:
            self._over = True
            self._task.cancel()
