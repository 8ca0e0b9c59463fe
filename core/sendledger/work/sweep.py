"""The sweep: recover what dead workers left, end waits whose time has passed, release what is orphaned."""

from __future__ import annotations

import time
from datetime import datetime

from sendledger.journal.advance import Entry, Proposal
from sendledger.journal.scopes import released
from sendledger.logs import get_logger
from sendledger.store import deliveries
from sendledger.store.database import Database, DatabaseAway
from sendledger.work.context import ChannelWork, Workshop
from sendledger.work.progress import Progress
from sendledger.work.proposals import lost, wait_ended
from sendledger.work.recording import Recording
from sendledger.work.stopping import Stop

PAGE_ROWS = 500
LOOK_ROWS = 5_000

log = get_logger(__name__)


class Sweep:
    """Looks at leases and waits, whoever held or began them; no worker is needed for another's rows."""

    def __init__(self, shop: Workshop, recording: Recording, progress: Progress) -> None:
        self._shop, self._recording, self._progress = shop, recording, progress
        self._database: Database = shop.database
        self._lease = shop.rhythm.lease
        self._trusted_from = time.monotonic()
        self._looked_until: dict[str, datetime | None] = {}

    async def run(self, stop: Stop) -> None:
        """Sweep now and at every interval, until told to stop."""
        while not stop.stopping:
            try:
                await self._once()
            except DatabaseAway:
                # Leases could not be renewed meanwhile: give every worker one lease to come back.
                self._trusted_from = time.monotonic() + self._lease.total_seconds()
            await stop.stopped(within=self._shop.rhythm.sweep)

    async def _once(self) -> None:
        if time.monotonic() >= self._trusted_from:
            await self._recover()
        for channel in self._shop.channels:
            if channel.policy.look_up is None:  # else the provider is asked first: Reconcile
                await self._end_waits(channel)
            await self._release_orphans(channel)

    async def _recover(self) -> None:
        async with self._database.connection() as connection:
            freed = await deliveries.free_expired_claims(
                connection, lease=self._lease, rows_max=PAGE_ROWS
            )
        if freed:
            log.info("claims freed", rows=freed)
        while True:
            async with self._database.connection() as connection:
                found = await deliveries.find_lost_attempts(
                    connection, lease=self._lease, rows_max=PAGE_ROWS
                )
            if not await self._propose(found, lost):
                return
            self._progress.recovered += len(found)
            log.warning("handoffs recorded as unknown", rows=len(found))

    async def _end_waits(self, channel: ChannelWork) -> None:
        """End what ended. Rows that woke to be looked up, in a channel that asks no more, go to the back."""
        while True:
            async with self._database.connection() as connection:
                found = await deliveries.find_ended_waits(
                    connection, channel=channel.name, rows_max=PAGE_ROWS
                )
            moved = await self._propose(found, wait_ended(channel.policy))
            if moved < len(found):
                async with self._database.connection() as connection:
                    ids = [intent_id for intent_id, _ in found]
                    moved += await deliveries.retime_waits(connection, ids)
            if not moved:
                return

    async def _release_orphans(self, channel: ChannelWork) -> None:
        """Look through some of the held rows, and the next time on from there: there may be a million."""
        name, since = channel.name, self._looked_until.get(channel.name)
        async with self._database.connection() as connection:
            until = await deliveries.read_held_until(
                connection, channel=name, since=since, rows_max=LOOK_ROWS
            )
            found = await deliveries.find_orphaned(
                connection, channel=name, rows_max=PAGE_ROWS, since=since, until=until
            )
        moved = await self._propose(found, released(None))
        self._looked_until[name] = since if moved == PAGE_ROWS else until

    async def _propose(self, found: list[tuple[int, int]], propose: Proposal) -> int:
        """Record what is proposed of each row; returns how many rows it moved."""
        if not found:
            return 0
        done = await self._shop.recorder.record(
            [Entry(intent_id=intent_id, propose=propose) for intent_id, _ in found]
        )
        self._recording.pass_on(done)
        for step in done:
            meter = self._progress.meters.channel(step.locked.channel)
            for _, finding in step.added:
                if finding.outcome is not None:
                    meter.outcome(finding.outcome, finding.scope)
        return sum(1 for step in done if step.added)
