"""One worker process: all loops together, from start to an orderly end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

from sendledger.journal.scopes import end_outdated_pauses
from sendledger.logs import get_logger
from sendledger.metrics.meters import Meters
from sendledger.store import deliveries
from sendledger.store.database import DatabaseAway
from sendledger.store.inbox import HINT
from sendledger.work.context import GROUP_MAX, Workshop
from sendledger.work.dispatch import Dispatch
from sendledger.work.leases import Leases
from sendledger.work.listen import Listener
from sendledger.work.presence import Register
from sendledger.work.progress import Progress
from sendledger.work.receipts import ReceiptLoop
from sendledger.work.reconcile import Reconcile
from sendledger.work.recording import Recording
from sendledger.work.stopping import Stop
from sendledger.work.sweep import Sweep

_LOOK_S = 0.1

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """End when nothing is due or in flight; a row due within ``within`` is waited for."""

    within: timedelta = timedelta(0)


class Worker:
    """The loops of one process. ``run`` returns after everything in flight is recorded."""

    def __init__(self, shop: Workshop) -> None:
        self.stop = Stop()
        self.meters = Meters(channel.name for channel in shop.channels)
        self.progress = Progress(meters=self.meters)
        self._shop = shop
        self._recording = Recording(
            shop.recorder,
            shop.host,
            self.stop,
            self.meters,
            accepted_max=max((channel.group_max for channel in shop.channels), default=GROUP_MAX),
        )
        self._listener: Listener | None = None
        self._leases = Leases(shop.database, lease=shop.rhythm.lease)
        self._sweep = Sweep(shop, self._recording, self.progress)
        self._receipts = ReceiptLoop(shop, self.meters, self._recording.pass_on)
        self._reconciles = [
            Reconcile(shop, channel, self.meters, self._recording.pass_on)
            for channel in shop.channels
            if channel.policy.look_up is not None
        ]
        self._dispatches = [
            Dispatch(
                shop,
                channel,
                leases=self._leases,
                recording=self._recording,
                progress=self.progress,
            )
            for channel in shop.channels
        ]

    async def run(self, *, drain: Drain | None = None) -> None:
        """Work until told to stop, or until a drain finds nothing due."""
        for scope_key in await end_outdated_pauses(
            self._shop.recorder, self._shop.recorder.configurations
        ):
            log.info("resumed, the configuration changed", scope_key=scope_key)
        wake = {dispatch.channel: dispatch.wake for dispatch in self._dispatches}
        wake[HINT] = self._receipts.wake
        listener = self._listener = Listener(self._shop.listen_dsn, wake, self._shop.chance)
        names = tuple(channel.name for channel in self._shop.channels)
        register = Register(self._shop.database, self._shop.new_token(), names, self.progress)
        async with asyncio.TaskGroup() as tasks:
            support = [
                tasks.create_task(register.run(self.stop)),
                tasks.create_task(listener.run()),
                tasks.create_task(self._recording.run()),
                tasks.create_task(self._leases.run(self.stop)),
                tasks.create_task(self._sweep.run(self.stop)),
                tasks.create_task(self._receipts.run(self.stop)),
                *(tasks.create_task(each.run(self.stop)) for each in self._reconciles),
            ]
            if drain is not None:
                support.append(tasks.create_task(self._drain(drain)))
            support.append(tasks.create_task(self._cut_short()))
            await asyncio.gather(*(dispatch.run(self.stop) for dispatch in self._dispatches))
            await self._recording.finish()
            self.stop.end()
            for task in support:
                task.cancel()
        if not self.stop.abandoned:
            await register.leave()

    @property
    def hears(self) -> bool | None:
        """Whether new work is heard of at once; None where a pooler lets nobody listen."""
        return None if self._listener is None else self._listener.hears

    def interrupt(self) -> None:
        """Stop in order; told a second time, wait for nothing more: what is in flight is unknown."""
        if self.stop.stopping:
            self._stop_waiting()
        self.stop.stop()

    async def _cut_short(self) -> None:
        """After a stop, wait for what is in flight for the grace only; then record it as unknown."""
        await self.stop.stopped()
        if not await self.stop.ended(within=self._shop.rhythm.stop_grace):
            self._stop_waiting()
        if not await self.stop.ended(within=self._shop.rhythm.stop_grace):
            self.stop.abandoned = True
            for dispatch in self._dispatches:
                dispatch.abandon()

    def _stop_waiting(self) -> None:
        for dispatch in self._dispatches:
            dispatch.stop_waiting()

    async def _drain(self, drain: Drain) -> None:
        while not self.stop.stopping:
            await self.stop.stopped(within=timedelta(seconds=_LOOK_S))
            if all(dispatch.idle for dispatch in self._dispatches) and await self._dry(drain):
                self.stop.stop()

    async def _dry(self, drain: Drain) -> bool:
        names = [channel.name for channel in self._shop.channels]
        try:
            async with self._shop.database.connection() as connection:
                due = await deliveries.next_due(connection, names)
                now = await _clock(self._shop)
        except DatabaseAway:
            return False
        return due is None or due > now + drain.within


async def _clock(shop: Workshop) -> datetime:
    return (await shop.database.server()).now
