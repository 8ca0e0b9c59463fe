"""Dispatch of one channel: claim, authorise, hand over, give back. Slots bound what is in flight."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

from sendledger.ledger.evidence import Evidence
from sendledger.ledger.words import Lane, Outcome
from sendledger.logs import get_logger
from sendledger.plugin.port import ChannelPort
from sendledger.store.attempts import Terms
from sendledger.store.database import DatabaseAway
from sendledger.store.deliveries import Claimed
from sendledger.work.admission import Admission
from sendledger.work.claiming import Claiming
from sendledger.work.closing import Closing
from sendledger.work.context import ChannelWork, Workshop
from sendledger.work.handoff import Handoffs, Recorded, Returned
from sendledger.work.lanes import LaneQueue
from sendledger.work.leases import Leases
from sendledger.work.lineup import LineUp
from sendledger.work.opening import Answer, Openings
from sendledger.work.progress import Progress
from sendledger.work.ready import Ready
from sendledger.work.recording import Recording
from sendledger.work.stopping import Stop
from sendledger.work.turns import TurnTaking

EMPTY_S = 0.1
"""How long a lane that gave nothing is not looked into again, unless somebody tells of new work."""

log = get_logger(__name__)


class Dispatch:
    """One channel's queue, worked by one claimer and as many slots as are configured."""

    def __init__(
        self,
        shop: Workshop,
        channel: ChannelWork,
        *,
        leases: Leases,
        recording: Recording,
        progress: Progress,
    ) -> None:
        self._shop, self._channel, self._leases = shop, channel, leases
        self._progress, self._meter = progress, progress.meters.channel(channel.name)
        self._port: ChannelPort = shop.host.channel(channel.name)
        self._openings = Openings(
            shop.database, channel, terms_of(shop, channel, self._port), progress.meters
        )
        self._handoffs = Handoffs(
            shop,
            self._port,
            openings=self._openings,
            recording=recording,
            progress=progress,
        )
        self._closing = Closing(shop, channel)
        self._claiming = Claiming(shop, channel.name, leases)
        self._admission = Admission(
            shop, channel, leases=leases, recording=recording, progress=progress
        )
        self._turns = TurnTaking(shop.database, channel.name, channel.limits)
        self._resume_in: timedelta | None = None
        self._line = LineUp(channel.limits)
        self._queue = LaneQueue()
        self._share = self._turns.queue_max(2 * channel.slots_useful)
        self._more: set[Lane] = set()
        self._busy = 0
        self._empty_until: dict[Lane, float] = {}
        self._woken = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or in flight here."""
        return self._busy == 0 and not len(self._queue)

    @property
    def channel(self) -> str:
        """The channel's configured name."""
        return self._channel.name

    def wake(self) -> None:
        """Look for work now: something may have been planned."""
        self._empty_until.clear()
        self._woken.set()

    def stop_waiting(self) -> None:
        """Cut short what is in flight: it is recorded as unknown."""
        self._handoffs.stop_waiting()

    def abandon(self) -> None:
        """Hope no longer for a database that is away: what it may have opened is left to its lease."""
        self._openings.abandoned = True

    async def run(self, stop: Stop) -> None:
        """Work the queue until told to stop, then finish what is in flight."""
        async with asyncio.TaskGroup() as tasks:
            openings = tasks.create_task(self._openings.groups.run())
            useful = range(self._channel.slots_useful)
            slots = [tasks.create_task(self._slot(stop)) for _ in useful]
            stopper = tasks.create_task(self._wake_at_stop(stop))
            await self._claim_until(stop)
            await self._give_back_queue()
            self._queue.close()
            await asyncio.gather(*slots)
            openings.cancel()
            stopper.cancel()

    async def _wake_at_stop(self, stop: Stop) -> None:
        await stop.stopped()
        self.wake()

    # --- claiming ----------------------------------------------------------------------------

    async def _claim_until(self, stop: Stop) -> None:
        while not stop.stopping:
            self._woken.clear()
            try:
                full = await self._claim_once()
            except DatabaseAway:
                full = False
            except Exception:  # one bad round must not end the worker
                log.exception("claiming failed", channel=self._channel.name)
                full = False
            if not full:
                await self._rest()

    async def _rest(self) -> None:
        with suppress(TimeoutError):
            rest = min(self._shop.rhythm.poll, self._resume_in or self._shop.rhythm.poll)
            async with asyncio.timeout(rest.total_seconds()):
                await self._woken.wait()

    async def _claim_once(self) -> bool:
        """Claim what there is room for; returns whether there may be more to claim at once."""
        self._resume_in = None
        probing = await self._closing.probing()
        if probing is None:
            return False
        rooms = {lane: self._room(lane) for lane in Lane if probing or not self._was_empty(lane)}
        wanted = sum(rooms.values())
        allowance = await self._turns.allow(min(1, wanted) if probing else wanted)
        going = 0
        for lane, room in rooms.items():
            going += await self._claim(lane, min(room, allowance.rows - going), probing=probing)
        await self._turns.settle(allowance, going)
        if not allowance.left(going):
            self._resume_in = self._turns.rest
            return False
        return not probing and self._wants_more()

    async def _claim(self, lane: Lane, wanted: int, *, probing: bool) -> int:
        """Claim and admit up to *wanted* rows; returns how many are going to a slot."""
        if not wanted:
            return 0
        began = time.monotonic()
        async with self._shop.database.connection() as connection:
            token, rows = await self._claiming.claim(connection, lane, wanted, probing=probing)
        self._meter.claimed(time.monotonic() - began)
        self._progress.claimed += len(rows)
        self._closing.claimed(len(rows))
        (self._more.add if len(rows) == wanted else self._more.discard)(lane)
        if not rows:
            rest_s = min(EMPTY_S, self._shop.rhythm.poll.total_seconds() / 2)
            self._empty_until[lane] = time.monotonic() + rest_s
        going = await self._admit(rows, token)
        for ready in going:
            self._queue.put(ready)
        return len(going)

    def _was_empty(self, lane: Lane) -> bool:
        """Whether *lane* gave nothing a moment ago, and nobody spoke of new work since."""
        return time.monotonic() < self._empty_until.get(lane, 0)

    def _wants_more(self) -> bool:
        """Whether a lane that had more rows than were claimed has room for them now."""
        return any(self._room(lane) for lane in self._more)

    async def _admit(self, rows: Sequence[Claimed], token: UUID) -> list[Ready]:
        try:
            return await self._admission.admit(rows, token)
        except BaseException:
            # Nobody holds these rows now; renewed for good they would never be found again.
            self._leases.drop(token)
            raise

    def _room(self, lane: Lane) -> int:
        """Return how many rows of *lane* to claim: none until half its share of the queue is taken."""
        waiting, share = self._queue.waiting(lane), self._share
        return 0 if waiting > share // 2 else min(self._shop.rhythm.claim_max, share - waiting)

    # --- slots -------------------------------------------------------------------------------

    async def _slot(self, stop: Stop) -> None:
        while (ready := await self._queue.get()) is not None:
            self._busy += 1
            rest: timedelta | None = None
            try:
                rest = await self._take(ready)
            except Exception:  # the lease ends by itself, and recovery finds what was open
                log.exception("handoff failed", intent_id=ready.claimed.intent_id)
            finally:
                self._busy -= 1
                self._leases.done(ready.claim_token)
            if not self._woken.is_set() and self._wants_more():
                self._woken.set()
            if rest is not None:
                await stop.stopped(within=rest)

    async def _take(self, ready: Ready) -> timedelta | None:
        """Hand one row over, or give it back; returns how long the slot rests when all are taken."""
        claim = (ready.claimed.intent_id, ready.claim_token)
        if self._closing.shut:
            await self._admission.give_back([claim])
            return None
        began = time.monotonic()
        match await self._handoffs.hand_over(ready):
            case Recorded(evidence=Evidence() as evidence, meaning=meaning) if meaning:
                if self._channel.limits.bounds_flight:
                    self._line.lasted(timedelta(seconds=time.monotonic() - began))
                if meaning.outcome is Outcome.ACCEPTED or meaning.outcome is Outcome.DELIVERED:
                    await self._closing.success()
                else:
                    await self._closing.fault(ready.claimed.intent_id, meaning, evidence)
            case Returned() as returned:
                wake_at = await self._wake_at(ready, returned)
                await self._admission.give_back([claim], wake_at=wake_at)
                if returned.answer is Answer.CHANNEL_FULL:
                    return self._line.rest(self._shop.rhythm.poll, self._shop.chance())
            case Recorded():
                pass
        return None

    async def _wake_at(self, ready: Ready, returned: Returned) -> datetime | None:
        """Return from when on a row that opened nothing may be claimed again; None: at once."""
        if returned.evidence is not None:
            await self._no_session(ready, returned.evidence)
            return self._closing.not_before(ready.claimed)
        if returned.again_at is not None:
            return returned.again_at
        if returned.answer is Answer.DOMAIN_FULL:
            return self._line.again_at(ready.claimed)
        return None

    async def _no_session(self, ready: Ready, evidence: Evidence) -> None:
        meaning = self._port.classify(evidence)
        self._progress.rules[meaning.rule] += 1
        if meaning.configuration_fault:
            await self._closing.pause(ready.claimed, meaning, evidence)
        else:
            await self._closing.fault(ready.claimed.intent_id, meaning, evidence)

    async def _give_back_queue(self) -> None:
        left = self._queue.drain()
        await self._admission.give_back(
            [(ready.claimed.intent_id, ready.claim_token) for ready in left]
        )
        for ready in left:
            self._leases.done(ready.claim_token)


def terms_of(shop: Workshop, channel: ChannelWork, port: ChannelPort) -> Terms:
    """Return what holds for every attempt of *channel*."""
    policy = channel.policy
    return Terms(
        handoff_max=port.capabilities.handoff_max + shop.rhythm.lease,
        unknown_wait=policy.unknown_wait,
        evidence_wait=policy.evidence_due,
        window=policy.evidence_wait,
        margin=shop.rhythm.lease / 3,
        token_key_id=shop.token_key_id,
        policy_revision=policy.revision,
    )
