"""How many sessions at once: few at first, more while they serve, half after a fault."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from sendledger.plugin import Evidence, SessionRefused

START = 5
"""Sessions of a relay that nothing is known of, or the maximum if that is less."""


class Ramp:
    """Room for sessions, taken in the order asked for.

    The limit grows by one when as many submissions in a row went well as it allows sessions, up to
    *most*. It halves at a fault, once for all sessions that were lent before.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._streak = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.limit = min(START, most)
        self.cuts = 0

    async def enter(self) -> None:
        """Take a place, when one is free. Raises :class:`SessionRefused` when :meth:`refuse` is called before."""
        if self._taken < self.limit and not self._waiting:
            self._taken += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            with suppress(ValueError):
                self._waiting.remove(turn)
            # Cancelled with the place already given.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave()
            raise

    def leave(self) -> None:
        """Give a place back."""
        self._taken -= 1
        self._admit()

    def refuse(self, evidence: Evidence) -> None:
        """Tell all who wait that no session is to be had."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(SessionRefused(evidence))

    def succeeded(self) -> None:
        """Count a submission that the relay answered as it should."""
        if self.limit == self._most:
            return
        self._streak += 1
        if self._streak >= self.limit:
            self.limit += 1
            self._streak = 0
            self._admit()

    def faulted(self, cuts: int) -> None:
        """Halve for a fault of a session that was lent after so many *cuts*."""
        if cuts == self.cuts:
            self.limit = max(1, self.limit // 2)
            self._streak = 0
            self.cuts += 1

    def _admit(self) -> None:
        while self._waiting and self._taken < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._taken += 1
                turn.set_result(None)
