"""What is claimed and ready, by lane: transactional first, and bulk never starved."""

from __future__ import annotations

import asyncio
from collections import deque

from sendledger.ledger.words import Lane
from sendledger.work.ready import Ready

BULK_EVERY = 8
"""One row of every so many is taken from bulk, however many transactional rows wait."""

_FIRST_LANES = tuple(Lane)
_BULK_FIRST = tuple(reversed(Lane))


class LaneQueue:
    """Ready rows for the slots of one channel. ``close`` lets every waiting slot go home."""

    def __init__(self) -> None:
        self._rows: list[deque[Ready]] = [deque() for _ in Lane]
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._taken = 0

    def __len__(self) -> int:
        return sum(map(len, self._rows))

    def waiting(self, lane: Lane) -> int:
        """Return how many rows of *lane* are ready and not taken."""
        return len(self._rows[lane])

    def put(self, ready: Ready) -> None:
        """Add a row to its lane."""
        self._rows[ready.claimed.lane].append(ready)
        self._wake()

    async def get(self) -> Ready | None:
        """Return the next row; None once the queue is closed and empty."""
        while not len(self):
            if self._closed:
                return None
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        self._taken += 1
        lanes = _BULK_FIRST if self._taken % BULK_EVERY == 0 else _FIRST_LANES
        return next(self._rows[lane].popleft() for lane in lanes if self._rows[lane])

    def drain(self) -> list[Ready]:
        """Take out all that nobody has taken."""
        left = [ready for rows in self._rows for ready in rows]
        for rows in self._rows:
            rows.clear()
        return left

    def close(self) -> None:
        """Let the slots end when nothing is left."""
        self._closed = True
        while self._waiting:
            self._wake()

    def _wake(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                return
