"""The loop that folds receipts: told at once, or a poll later. Several of them do not collide."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from sendledger.journal.advance import Advance
from sendledger.journal.receipts import Folded, Reading, fold_receipts, read_receipt
from sendledger.ledger.classification import UNMAPPED
from sendledger.ledger.evidence import Classification, Evidence
from sendledger.logs import get_logger
from sendledger.metrics.meters import Meters
from sendledger.store import inbox
from sendledger.store.database import DatabaseAway
from sendledger.work.context import Workshop
from sendledger.work.stopping import Stop

PAGE_ROWS = 200

log = get_logger(__name__)


class ReceiptLoop:
    """Folds what waits in the inbox, whoever took it in. ``pass_on`` hears of what was recorded."""

    def __init__(
        self, shop: Workshop, meters: Meters, pass_on: Callable[[Sequence[Advance]], None]
    ) -> None:
        self._shop, self._meters, self._pass_on = shop, meters, pass_on
        self._channels = tuple(shop.host.channels)
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Look now: a receipt came in."""
        self._woken.set()

    async def run(self, stop: Stop) -> None:
        """Fold until told to stop."""
        stopper = asyncio.create_task(self._wake_at_stop(stop))
        try:
            while not stop.stopping:
                self._woken.clear()
                if not await self._round():
                    await self._rest()
        finally:
            stopper.cancel()

    async def _wake_at_stop(self, stop: Stop) -> None:
        await stop.stopped()
        self.wake()

    async def _rest(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._shop.rhythm.poll.total_seconds()):
                await self._woken.wait()

    async def _round(self) -> bool:
        """Fold one page; returns whether there may be more."""
        try:
            return await self._fold_page()
        except DatabaseAway:
            return False
        except Exception:  # one bad round must not end the process
            log.exception("receipts not folded")
            return False

    async def _fold_page(self) -> bool:
        async with self._shop.database.connection() as connection:
            rows = await inbox.find_receipts(connection, self._channels, rows_max=PAGE_ROWS)
        if not rows:
            return False
        chance = self._shop.chance
        readings = [read_receipt(row, self._classify, chance=chance()) for row in rows]
        folded = await fold_receipts(self._shop.recorder, readings)
        self._pass_on(folded.advances)
        self._count(readings, folded)
        # What somebody else is folding still stands in the page: it would be read again and again.
        return len(folded.taken) == PAGE_ROWS

    def _classify(self, channel: str, evidence: Evidence) -> Classification:
        return self._shop.host.channel(channel).classify_later(evidence)

    def _count(self, readings: Sequence[Reading], folded: Folded) -> None:
        meters, added = self._meters, folded.added
        for reading in readings:
            if reading.row.inbox_id in folded.taken:
                meters.receipts.received(reading.row.channel, _fate(reading, folded, added))
        for done in folded.advances:
            meter = meters.channel(done.locked.channel)
            for _, finding in done.added:
                if finding.outcome is not None:
                    meter.outcome(finding.outcome, finding.scope)


def _fate(reading: Reading, folded: Folded, added: Collection[tuple[int, str, str]]) -> str:
    row = reading.row
    if row.inbox_id in folded.aside:
        return "set-aside"
    if (row.intent_id, row.source, row.identity) not in added:
        return "repeated"
    return "unmapped" if reading.meaning.rule == UNMAPPED else "folded"
