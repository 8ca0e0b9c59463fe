"""Receipts refused again and again: with a good token that is our own fault, and somebody is told."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from sendledger.journal.tasks import end_refused, tell_refused
from sendledger.logs import get_logger
from sendledger.store.database import Database, DatabaseAway, DatabaseError

REFUSED_MAX = 10
"""How many in a row without a single one that is taken. Who guesses has no token and is not counted."""

log = get_logger(__name__)


class Refusals:
    """Counts by channel what was refused since the last receipt that was taken."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._refused: Counter[str] = Counter()
        self._clear: set[str] = set()

    async def add(self, channel: str, reason: str) -> None:
        """Count one more; at every so many, see that a task is open."""
        self._refused[channel] += 1
        if self._refused[channel] % REFUSED_MAX:
            return
        log.warning("receipts refused", channel=channel, reason=reason, count=REFUSED_MAX)
        self._clear.discard(channel)
        with suppress(DatabaseAway, DatabaseError):
            await tell_refused(self._database, channel, reason=reason)

    async def end(self, channel: str) -> None:
        """Begin anew, for a receipt was taken; the first one also closes what an earlier process opened."""
        self._refused.pop(channel, None)
        if channel in self._clear:
            return
        with suppress(DatabaseAway, DatabaseError):
            await end_refused(self._database, channel)
            self._clear.add(channel)
