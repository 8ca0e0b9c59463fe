"""Admission: which claimed rows may go now; what keeps the others is recorded at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sendledger.journal.advance import Entry
from sendledger.ledger.findings import Finding
from sendledger.logs import get_logger
from sendledger.plugin.channel import ContentFault, Go, Writer
from sendledger.plugin.port import ChannelPort
from sendledger.store import deliveries
from sendledger.store.database import DatabaseAway
from sendledger.store.deliveries import Claimed
from sendledger.work.context import ChannelWork, Workshop
from sendledger.work.leases import Leases
from sendledger.work.progress import Progress
from sendledger.work.proposals import when_waiting
from sendledger.work.ready import Ready, Writers, candidate_of, finding_of, split
from sendledger.work.recording import Recording
from sendledger.work.turns import TurnTaking

log = get_logger(__name__)


class Admission:
    """Authorises the claimed rows of one channel together, and gives back what cannot go."""

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
        self._turns = TurnTaking(shop.database, channel.name, channel.limits)
        self._writers = Writers(shop.database, shop.compile_content)

    async def admit(self, rows: Sequence[Claimed], token: UUID) -> list[Ready]:
        """Return the rows that may be handed over now."""
        asked, stopped = split(await self._sift_senders(rows, token), self._channel.policy)
        asked = await self._sift_domains(asked, token)
        verdicts = await self._shop.host.authorize(
            [candidate_of(row, self._channel.name) for row in asked]
        )
        ready: list[Ready] = []
        for row, verdict in zip(asked, verdicts, strict=True):
            finding = finding_of(verdict, row)
            if finding is not None:
                stopped.append((row, finding))
            elif isinstance(verdict, Go):
                writer = await self._writer(row)
                ready.append(
                    Ready(claimed=row, claim_token=token, go_until=verdict.until, writer=writer)
                )
        await self._record(stopped, token)
        return ready

    async def give_back(
        self, claims: Sequence[tuple[int, UUID]], *, wake_at: datetime | None = None
    ) -> None:
        """Give claims back; when that fails, their lease ends by itself and they are free again."""
        await self._postpone([(*claim, wake_at) for claim in claims])

    async def _sift_senders(self, rows: Sequence[Claimed], token: UUID) -> list[Claimed]:
        """Give back the rows of a sender that backs off."""
        later = [(row, row.closed_until) for row in rows if row.closed_until is not None]
        await self._put_off(later, token)
        return [row for row in rows if row.closed_until is None]

    async def _sift_domains(self, rows: Sequence[Claimed], token: UUID) -> list[Claimed]:
        """Give back what a destination domain's rate keeps from going now.

        Only of rows that core itself does not stop: those of a paused batch are held when first met.
        """
        going, later = await self._turns.sift(rows)
        await self._put_off(later, token)
        return going

    async def _put_off(self, later: Sequence[tuple[Claimed, datetime]], token: UUID) -> None:
        await self._postpone([(row.intent_id, token, wake_at) for row, wake_at in later])
        for _ in later:
            self._leases.done(token)

    async def _postpone(self, claims: Sequence[tuple[int, UUID, datetime | None]]) -> None:
        if not claims:
            return
        try:
            async with self._shop.database.connection() as connection:
                await deliveries.postpone_claims(connection, claims)
        except DatabaseAway:
            log.warning("claims not given back", rows=len(claims))

    async def _writer(self, row: Claimed) -> Writer:
        found = await self._writers.of(self._channel.name, row.content_id, self._port.prepare)
        return _Unwritable(found) if isinstance(found, ContentFault) else found

    async def _record(self, stopped: Sequence[tuple[Claimed, Finding]], token: UUID) -> None:
        entries = [
            Entry(intent_id=row.intent_id, propose=when_waiting(finding))
            for row, finding in stopped
        ]
        try:
            await asyncio.gather(*(self._recording.entries.add(entry) for entry in entries))
        finally:
            for _, finding in stopped:
                self._progress.rulings[finding.rule] += 1
                self._leases.done(token)


class _Unwritable:
    """Strictly private: the writer of a content revision that can never be written."""

    def __init__(self, fault: ContentFault) -> None:
        self._fault = fault

    def write(self, _addressee: object) -> bytes:
        """Raise the fault that preparing met."""
        raise self._fault
