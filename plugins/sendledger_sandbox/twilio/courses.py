"""What becomes of accepted messages, one change of status after another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from sendledger_sandbox.twilio.callbacks import Callbacks, Change
from sendledger_sandbox.twilio.message import Message
from sendledger_sandbox.twilio.outcomes import Course, End, Oddity
from sendledger_sandbox.twilio.provider import Provider
from sendledger_sandbox.twilio.tasks import Tasks

_NEVER_LEFT = frozenset({"failed", "canceled"})


class Courses:
    """Runs the courses of messages, each in a task of its own."""

    def __init__(self, provider: Provider, callbacks: Callbacks) -> None:
        self._provider, self._callbacks = provider, callbacks
        self.tasks = Tasks()

    def begin(self, message: Message, course: Course) -> asyncio.Task[None]:
        """Let *message* take its course; the task ends when everything is told."""
        step_s = 0.0 if Oddity.EARLY in course.oddities else self._provider.step_s
        return self.tasks.begin(self._run(message, course, step_s=step_s))

    async def _run(self, message: Message, course: Course, *, step_s: float) -> None:
        await self._wait_for(message.request.send_at)
        odd, held = course.oddities, list[Change]()
        holds = Oddity.REVERSED in odd or course.late_s > 0
        for end, told in _steps(message.status, course.ends):
            if step_s:
                await asyncio.sleep(step_s)
            if message.status == "canceled":
                return
            change = self._move(message, end)
            if told and holds:
                held.append(change)
            elif told:
                await self._tell(message, change, course)
        if course.late_s and held:
            await asyncio.sleep(course.late_s)
        for change in reversed(held) if Oddity.REVERSED in odd else held:
            await self._tell(message, change, course)

    async def _wait_for(self, at: datetime | None) -> None:
        if at is not None:
            await asyncio.sleep(max(0.0, (at - datetime.now(UTC)).total_seconds()))

    def _move(self, message: Message, end: End) -> Change:
        if message.sender is None:
            message.sender = self._provider.service_sender
        at = datetime.now(UTC)
        message.move(end.status, end.code, at)
        return Change(status=end.status, error_code=end.code, at=at)

    async def _tell(self, message: Message, change: Change, course: Course) -> None:
        odd, post = course.oddities, self._callbacks.post
        if Oddity.NO_CALLBACKS in odd or message.request.callback_url is None:
            return
        if Oddity.FORGED_FIRST in odd:
            lie = replace(change, status="failed", error_code=30007)
            await post(message, lie, forged=True)
        copies = 2 if Oddity.TWICE in odd else 1
        forged = Oddity.FORGED in odd
        await asyncio.gather(*(post(message, change, forged=forged) for _ in range(copies)))


def _steps(status: str, ends: tuple[End, ...]) -> Iterator[tuple[End, bool]]:
    """Return each status from *status* on, and whether a callback tells of it.

    None tells of the first status, and none of sending (docs/messaging/guides/outbound-message-status).
    """
    if status != "queued":
        yield End(status="queued"), True
    if ends[0].status not in _NEVER_LEFT:
        yield End(status="sending"), False
        yield End(status="sent"), True
    for end in ends:
        if end.status != "sent":
            yield end, True
