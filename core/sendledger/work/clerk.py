"""A process that takes receipts in and hands nothing over: the loop that folds them, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sendledger.journal.advance import Advance
from sendledger.metrics.meters import Meters
from sendledger.store.inbox import HINT
from sendledger.work.context import Workshop
from sendledger.work.listen import Listener
from sendledger.work.receipts import ReceiptLoop
from sendledger.work.stopping import Stop
from sendledger.work.telling import Telling, observed_of


class Clerk:
    """Folds receipts until it is told to stop; observers are told as by a worker."""

    def __init__(self, shop: Workshop) -> None:
        self.stop = Stop()
        self.meters = Meters(channel.name for channel in shop.channels)
        self._telling = Telling(shop.host)
        self._receipts = ReceiptLoop(shop, self.meters, self._pass_on)
        wake = {HINT: self._receipts.wake}
        self._listener = Listener(shop.listen_dsn, wake, shop.chance)

    @property
    def hears(self) -> bool | None:
        """Whether receipts are heard of at once; None where a pooler lets nobody listen."""
        return self._listener.hears

    async def run(self) -> None:
        """Fold until told to stop; the page under way is finished."""
        async with asyncio.TaskGroup() as tasks:
            support = [
                tasks.create_task(self._listener.run()),
                tasks.create_task(self._telling.run()),
            ]
            await self._receipts.run(self.stop)
            await self._telling.finish()
            for task in support:
                task.cancel()

    def interrupt(self) -> None:
        """Stop in order."""
        self.stop.stop()

    def _pass_on(self, advances: Sequence[Advance]) -> None:
        self._telling.add(told for done in advances for told in observed_of(done))
