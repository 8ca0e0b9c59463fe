"""The loops that read the ledger for Prometheus, and the collector that shows what they read last."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import timedelta

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from sendledger.logs import get_logger
from sendledger.metrics import readings
from sendledger.metrics.families import age_families, counted_families, watched_families
from sendledger.metrics.labels import Closed
from sendledger.metrics.readings import Counted, Watched
from sendledger.store.database import Database

WATCH_S = 5.0
COUNT_S = 15.0
READING_S_MAX = 60.0
COUNT_SHARE = 20
"""A count may take one part in so many of the time: a table that is slow to count is counted rarely."""

log = get_logger(__name__)


class Exporter(Collector):
    """Shows the ledger as last read; a scrape reads nothing and waits for nothing.

    While the database is away the last readings stay, and their age grows.
    """

    def __init__(self, database: Database, *, channels: Iterable[str], grace: timedelta) -> None:
        self._database = database
        self._channels = Closed(channels)
        self._grace = grace
        self._watched: Watched | None = None
        self._counted: Counted | None = None
        self._watched_at = self._counted_at = time.monotonic()

    def collect(self) -> Iterator[Metric]:
        """Show what was read last. Called in a thread of the server's, at any time."""
        now = time.monotonic()
        yield from age_families(watched_s=now - self._watched_at, counted_s=now - self._counted_at)
        if (watched := self._watched) is not None:
            yield from watched_families(watched, self._channels)
        if (counted := self._counted) is not None:
            yield from counted_families(counted, self._channels)

    async def run(self) -> None:
        """Read again and again until cancelled; a failure is logged once and tried over."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_repeat("watch", self.watch, pause_s=lambda _: WATCH_S))
            tasks.create_task(_repeat("count", self.count, pause_s=count_pause_s))

    async def watch(self) -> None:
        """Read what is cheap. Raises ``DatabaseAway`` or ``DatabaseError``."""
        async with self._database.connection() as connection:
            self._watched = await readings.watch(connection, grace=self._grace)
        self._watched_at = time.monotonic()

    async def count(self) -> None:
        """Count the whole table. Raises ``DatabaseAway`` or ``DatabaseError``."""
        async with self._database.connection() as connection:
            self._counted = await readings.count(connection)
        self._counted_at = time.monotonic()


def count_pause_s(took_s: float) -> float:
    """Return how long to wait after a count that *took_s*: its share of the time stays small."""
    return max(COUNT_S, COUNT_SHARE * took_s)


async def _repeat(
    reading: str, read: Callable[[], Awaitable[None]], *, pause_s: Callable[[float], float]
) -> None:
    failing = False
    while True:
        began = time.monotonic()
        try:
            async with asyncio.timeout(READING_S_MAX):
                await read()
            failing = False
        except Exception:  # counting must never end the worker; the age of the reading tells
            if not failing:
                log.exception("metrics not read", stage=reading)
            failing = True
        await asyncio.sleep(pause_s(time.monotonic() - began))
