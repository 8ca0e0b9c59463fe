"""Dispatch of one channel: claim, authorise, hand over, give back. Slots bound what is in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sendledger.journal.advance import Entry
from sendledger.ledger.evidence import Evidence
from sendledger.ledger.words import Lane, Outcome
from sendledger.logs import get_logger
from sendledger.plugin.channel import ContentFault, Go
from sendledger.plugin.port import ChannelPort
from sendledger.store import deliveries
from sendledger.store.attempts import Terms
from sendledger.store.database import DatabaseAway
from sendledger.store.deliveries import Claimed, ClaimRequest
from sendledger.work.closing import Closing
from sendledger.work.context import ChannelWork, Workshop
from sendledger.work.handoff import Handoffs, Recorded, Returned
from sendledger.work.leases import Leases
from sendledger.work.opening import Openings
from sendledger.work.progress import Progress
from sendledger.work.proposals import when_waiting
from sendledger.work.ready import Ready, Writers, candidate_of, finding_of, split
from sendledger.work.recording import Recording
from sendledger.work.stopping import Stop

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
        self._shop, self._channel = shop, channel
        self._leases, self._recording, self._progress = leases, recording, progress
        self._port: ChannelPort = shop.host.channel(channel.name)
        self._openings = Openings(shop.database, terms_of(shop, channel, self._port))
        self._handoffs = Handoffs(
            shop,
            self._port,
            openings=self._openings,
            recording=recording,
            progress=progress,
        )
        self._closing = Closing(shop, channel)
        self._writers = Writers(shop.database, shop.compile_content)
        self._queue: asyncio.Queue[Ready | None] = asyncio.Queue()
        self._busy = 0
        self._room = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or in flight here."""
        return self._busy == 0 and self._queue.empty()

    def stop_waiting(self) -> None:
        """Cut short what is in flight: it is recorded as unknown."""
        self._handoffs.stop_waiting()

    async def run(self, stop: Stop) -> None:
        """Work the queue until told to stop, then finish what is in flight."""
        async with asyncio.TaskGroup() as tasks:
            openings = tasks.create_task(self._openings.groups.run())
            slots = [tasks.create_task(self._slot()) for _ in range(self._channel.slots)]
            await self._claim_until(stop)
            await self._give_back_queue()
            for _ in slots:
                self._queue.put_nowait(None)
            await asyncio.gather(*slots)
            openings.cancel()

    # --- claiming ----------------------------------------------------------------------------

    async def _claim_until(self, stop: Stop) -> None:
        while not stop.stopping:
            try:
                found = await self._claim_once()
            except DatabaseAway:
                found = False
            if found:
                await self._wait_for_room(stop)
            else:
                await stop.stopped(within=self._shop.rhythm.poll)

    async def claim_now(self) -> bool:
        """Claim once, for a drain that wants to know whether anything is due; returns whether."""
        return await self._claim_once()

    async def _claim_once(self) -> bool:
        probing = await self._closing.probing()
        if probing is None:
            return False
        wanted = 1 if probing else self._wanted()
        rows: list[Claimed] = []
        token = self._shop.new_token()
        for lane in Lane:
            if len(rows) < wanted:
                rows += await self._claim(token, lane, wanted - len(rows), probing=probing)
        self._leases.took(token, len(rows))
        self._progress.claimed += len(rows)
        await self._prepare(rows, token)
        return bool(rows)

    def _wanted(self) -> int:
        room = 2 * self._channel.slots - self._queue.qsize()
        return max(1, min(self._shop.rhythm.claim_max, room))

    async def _claim(
        self, token: UUID, lane: Lane, claim_max: int, *, probing: bool
    ) -> list[Claimed]:
        request = ClaimRequest(
            channel=self._channel.name,
            lane=lane,
            claim_token=token,
            claim_max=claim_max,
            lease=self._leases.lease,
            probing=probing,
        )
        async with self._shop.database.connection() as connection:
            return await deliveries.claim_deliveries(connection, request)

    async def _wait_for_room(self, stop: Stop) -> None:
        while self._queue.qsize() >= self._channel.slots and not stop.stopping:
            self._room.clear()
            try:
                async with asyncio.timeout(self._shop.rhythm.poll.total_seconds()):
                    await self._room.wait()
            except TimeoutError:
                pass

    # --- authorising -------------------------------------------------------------------------

    async def _prepare(self, rows: Sequence[Claimed], token: UUID) -> None:
        open_rows = [row for row in rows if row.closed_until is None]
        for row in rows:
            if row.closed_until is not None:
                await self._give_back([(row.intent_id, token)], wake_at=row.closed_until)
        asked, stopped = split(open_rows, self._channel.policy)
        verdicts = await self._shop.host.authorize(
            [candidate_of(row, self._channel.name) for row in asked]
        )
        for row, verdict in zip(asked, verdicts, strict=True):
            finding = finding_of(verdict, row)
            if finding is not None:
                stopped.append((row, finding))
            elif isinstance(verdict, Go):
                await self._enqueue(row, token, verdict.until)
        if stopped:
            entries = [
                Entry(intent_id=row.intent_id, propose=when_waiting(finding))
                for row, finding in stopped
            ]
            await asyncio.gather(*(self._recording.entries.add(entry) for entry in entries))
            for _, finding in stopped:
                self._progress.rulings[finding.rule] += 1
                self._leases.done(token)

    async def _enqueue(self, row: Claimed, token: UUID, go_until: datetime) -> None:
        writer = await self._writers.of(self._channel.name, row.content_id, self._port.prepare)
        if isinstance(writer, ContentFault):
            writer = _Unwritable(writer)
        self._queue.put_nowait(
            Ready(claimed=row, claim_token=token, go_until=go_until, writer=writer)
        )

    # --- slots -------------------------------------------------------------------------------

    async def _slot(self) -> None:
        while (ready := await self._queue.get()) is not None:
            self._busy += 1
            try:
                await self._take(ready)
            finally:
                self._busy -= 1
                self._leases.done(ready.claim_token)
                self._room.set()

    async def _take(self, ready: Ready) -> None:
        claim = (ready.claimed.intent_id, ready.claim_token)
        if self._closing.closed and not self._closing.is_probe(ready.claim_token):
            await self._give_back([claim])
            return
        match await self._handoffs.hand_over(ready):
            case Recorded(evidence=Evidence() as evidence, meaning=meaning) if meaning:
                if meaning.outcome in {Outcome.ACCEPTED, Outcome.DELIVERED}:
                    await self._closing.success()
                else:
                    await self._closing.fault(ready.claimed.intent_id, meaning, evidence)
            case Returned(evidence=Evidence() as evidence):
                await self._no_session(ready, evidence)
                await self._give_back([claim], wake_at=self._closing.not_before(ready.claimed))
            case Returned():
                await self._give_back([claim])
            case Recorded():
                pass

    async def _no_session(self, ready: Ready, evidence: Evidence) -> None:
        meaning = self._port.classify(evidence)
        self._progress.rules[meaning.rule] += 1
        if meaning.configuration_fault:
            await self._closing.pause(ready.claimed, meaning, evidence)
        else:
            await self._closing.fault(ready.claimed.intent_id, meaning, evidence)

    async def _give_back_queue(self) -> None:
        claims: list[tuple[int, UUID]] = []
        while not self._queue.empty():
            ready = self._queue.get_nowait()
            if ready is not None:
                claims.append((ready.claimed.intent_id, ready.claim_token))
                self._leases.done(ready.claim_token)
        await self._give_back(claims)

    async def _give_back(
        self, claims: Sequence[tuple[int, UUID]], *, wake_at: datetime | None = None
    ) -> None:
        """Give claims back; when that fails, their lease ends by itself and they are free again."""
        if not claims:
            return
        try:
            async with self._shop.database.connection() as connection:
                await deliveries.release_claims(connection, claims, wake_at=wake_at)
        except DatabaseAway:
            log.warning("claims not given back", rows=len(claims))


class _Unwritable:
    """Strictly private: the writer of a content revision that can never be written."""

    def __init__(self, fault: ContentFault) -> None:
        self._fault = fault

    def write(self, _addressee: object) -> bytes:
        """Raise the fault that preparing met."""
        raise self._fault


def terms_of(shop: Workshop, channel: ChannelWork, port: ChannelPort) -> Terms:
    """Return what holds for every attempt of *channel*."""
    policy = channel.policy
    handoff_max: timedelta = port.capabilities.handoff_max
    return Terms(
        handoff_max=handoff_max + shop.rhythm.lease,
        unknown_wait=policy.unknown_wait,
        evidence_wait=policy.evidence_wait,
        window=policy.evidence_wait,
        margin=shop.rhythm.lease / 3,
        token_key_id=shop.token_key_id,
        policy_revision=policy.revision,
    )
