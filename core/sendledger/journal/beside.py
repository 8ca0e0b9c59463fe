"""One thing at a time, done beside what goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ParamSpec, Self

Arguments = ParamSpec("Arguments")


class Beside:
    """Runs one step beside the block. Leaving the block waits for it; an error in the block ends it."""

    def __init__(self) -> None:
        self._step: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is None:
            await self.wait()
        elif self._step is not None:
            self._step.cancel()
            await asyncio.wait([self._step])
            # Whatever it ended with, the error of the block is the one to be told.
            self._step.cancelled() or self._step.exception()

    async def start(
        self,
        step: Callable[Arguments, Coroutine[Any, Any, None]],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> None:
        """Wait for the step before, then begin the next. Raises what the one before raised."""
        await self.wait()
        self._step = asyncio.create_task(step(*arguments, **named))

    async def turn(self) -> None:
        """Give the step, and everybody else on this loop, a turn. Raises what the step raised."""
        await asyncio.sleep(0)
        if self._step is not None and self._step.done():
            await self.wait()

    async def wait(self) -> None:
        """Wait for the step to end. Raises what it raised."""
        if self._step is not None:
            step, self._step = self._step, None
            await step
