"""How the loops are told to stop: no new work, then no waiting, then no hoping for the database."""

from __future__ import annotations

import asyncio
from datetime import timedelta


class Stop:
    """Two events in order: *stopping* (start nothing new) and *ended* (everything in flight is done).

    Between them results may be ``abandoned``: the database is away, and their leases will tell.
    """

    def __init__(self) -> None:
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self.abandoned = False

    @property
    def stopping(self) -> bool:
        """Whether nothing new is to be started."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Start nothing new; what is in flight goes on."""
        self._stopping.set()

    def end(self) -> None:
        """Everything in flight is done: the supporting loops may end too."""
        self._stopping.set()
        self._ended.set()

    async def stopped(self, *, within: timedelta | None = None) -> bool:
        """Wait until stopping, at most *within*; returns whether it is."""
        return await _set(self._stopping, within)

    async def ended(self, *, within: timedelta) -> bool:
        """Wait until everything ended, at most *within*; returns whether it has."""
        return await _set(self._ended, within)


async def _set(event: asyncio.Event, within: timedelta | None) -> bool:
    try:
        async with asyncio.timeout(None if within is None else within.total_seconds()):
            await event.wait()
    except TimeoutError:
        return False
    return True
