"""Which claims this process holds, and the heartbeat that keeps their leases running."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import timedelta
from uuid import UUID

from sendledger.store import deliveries
from sendledger.store.database import Database, DatabaseAway
from sendledger.work.stopping import Stop


class Leases:
    """Claim tokens in use, each until its last row is done with."""

    def __init__(self, database: Database, *, lease: timedelta) -> None:
        self._database = database
        self._lease = lease
        self._rows: Counter[UUID] = Counter()
        self._renewed_at = time.monotonic()

    @property
    def lease(self) -> timedelta:
        """How long one lease runs."""
        return self._lease

    def took(self, token: UUID, rows: int) -> None:
        """*rows* were claimed under *token*."""
        if rows:
            self._rows[token] += rows

    def done(self, token: UUID) -> None:
        """One row of *token* is recorded or given back."""
        left = self._rows.pop(token, 0) - 1
        if left > 0:
            self._rows[token] = left

    def drop(self, token: UUID) -> None:
        """Renew nothing under *token* any more: the leases of its rows end by themselves."""
        self._rows.pop(token, None)

    async def run(self, stop: Stop) -> None:
        """Renew at a third of the lease until everything ended; a database that is away is asked again."""
        while not await stop.ended(within=self._lease / 3):
            if not self._rows:
                continue
            try:
                async with self._database.connection() as connection:
                    tokens = list(self._rows)
                    await deliveries.renew_leases(connection, tokens, lease=self._lease)
            except DatabaseAway:
                await asyncio.sleep(0)
