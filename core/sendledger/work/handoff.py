"""One handoff: a ready session, an open attempt, the submission, its result. One slot does this."""

from __future__ import annotations

import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sendledger.attachments.faults import AWAY
from sendledger.journal.advance import Entry
from sendledger.ledger import decisions
from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.findings import Finding, result_of
from sendledger.ledger.words import Outcome, Scope, Status
from sendledger.plugin.channel import (
    Attachment,
    ContentFault,
    ContentHeld,
    Envelope,
    Observed,
    Session,
    SessionRefused,
    Wait,
)
from sendledger.plugin.port import ChannelPort
from sendledger.store.attempts import Opening
from sendledger.store.deliveries import Claimed
from sendledger.work.context import Workshop
from sendledger.work.enclosing import AttachmentsAway, Enclosures
from sendledger.work.envelope import Whom, write_envelope
from sendledger.work.opening import Answer, Openings
from sendledger.work.patience import Patience
from sendledger.work.progress import Progress
from sendledger.work.proposals import unless_told, when_waiting
from sendledger.work.ready import Ready, finding_of
from sendledger.work.recording import Recording
from sendledger.work.telling import observed

NOT_BEGUN = Evidence(stage="open", fault="lease-short", handed_over=False, answered=False)
NOT_BEGUN_MEANS = Classification(
    rule="handoff.not-begun", outcome=Outcome.TRANSIENT, scope=Scope.CHANNEL
)
CLEAN = (Status.PLANNED, Status.DEFERRED)
"""Statuses of a row of which no evidence is ambiguous; no set, for an enum's hash is slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """The row goes back to the queue: nothing was opened.

    ``evidence`` says why no session was had, ``answer`` why there was no opening, ``again_at`` when
    it may come again.
    """

    evidence: Evidence | None = None
    answer: Answer | None = None
    again_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The result, or the fault of the content, is committed."""

    evidence: Evidence | None = None
    meaning: Classification | None = None


class Handoffs:
    """Hands over for one channel. ``stop_waiting`` cuts every wait short; what was open is recorded."""

    def __init__(
        self,
        shop: Workshop,
        port: ChannelPort,
        *,
        openings: Openings,
        recording: Recording,
        progress: Progress,
    ) -> None:
        self._shop, self._port = shop, port
        policy = shop.recorder.policies[port.name]
        self._enclosures = Enclosures(shop.attachments, policy, port.capabilities)
        self._openings, self._recording, self._progress = openings, recording, progress
        self._meter = progress.meters.channel(port.name)
        self._lending, self._submitting = Patience(None), Patience(port.capabilities.handoff_max)

    def stop_waiting(self) -> None:
        """End the waits for a session, and the submissions under way: each is recorded as unknown."""
        self._lending.lose()
        self._submitting.lose()

    async def hand_over(self, ready: Ready) -> Returned | Recorded:
        """Take one row all the way; returns once what happened is committed."""
        if ready.claimed.attachments is None:
            return await self._hand_over(ready, ())
        return await self._hand_over_enclosed(ready)

    async def _hand_over_enclosed(self, ready: Ready) -> Returned | Recorded:
        """Hand over a row with files, which are fetched before anything else and held until the end."""
        async with AsyncExitStack() as lent:
            try:
                with self._lending.wait():
                    files = await lent.enter_async_context(self._enclosures.lend(ready.claimed))
            except ContentFault as fault:
                await self._fault(ready, fault)
                return Recorded()
            except AttachmentsAway as away:
                return await self._put_off(ready, away)
            except TimeoutError:
                return Returned()
            return await self._hand_over(ready, files)

    async def _put_off(self, ready: Ready, away: AttachmentsAway) -> Returned:
        """Let the row wait for its files. It is told once; later waits only move when it is claimed."""
        row = ready.claimed
        until = row.claimed_at + away.wait
        finding = finding_of(Wait(until=until, rule=AWAY), row)
        assert finding is not None
        await self._recording.entries.add(
            Entry(intent_id=row.intent_id, propose=unless_told(finding))
        )
        self._progress.rulings[finding.rule] += 1
        return Returned(again_at=until)

    async def _hand_over(
        self, ready: Ready, attachments: tuple[Attachment, ...]
    ) -> Returned | Recorded:
        try:
            envelope = self._write(ready, attachments)
        except ContentFault as fault:
            await self._fault(ready, fault)
            return Recorded()
        try:
            outcome = await self._submit_open(ready, envelope)
        except SessionRefused as refused:
            return Returned(evidence=refused.evidence)
        return outcome if isinstance(outcome, Returned) else await self._record(ready, outcome)

    def _write(self, ready: Ready, attachments: tuple[Attachment, ...]) -> Envelope:
        row = ready.claimed
        assert row.destination is not None and row.variables is not None  # noqa: PT018
        whom = Whom(
            intent_id=row.intent_id,
            intent_key=row.intent_key,
            number=ready.number,
            token_key_id=self._shop.token_key_id,
            destination=row.destination,
            variables=row.variables,
            attachments=attachments,
            not_after=row.not_after,
        )
        return write_envelope(self._shop, self._port, ready.writer, whom)

    async def _fault(self, ready: Ready, fault: ContentFault) -> None:
        row, rule = ready.claimed, fault.rule
        if isinstance(fault, ContentHeld):
            finding = decisions.hold(
                rule, identity=f"hold/{row.seq}", cause=rule, now=row.claimed_at
            )
        else:
            finding = decisions.fault(rule, ready.number)
        await self._recording.entries.add(
            Entry(intent_id=row.intent_id, propose=when_waiting(finding))
        )
        self._progress.rulings[rule] += 1

    async def _submit_open(self, ready: Ready, envelope: Envelope) -> Evidence | Returned:
        """Return the evidence of a submission, or how the row goes back when no attempt was opened.

        What goes wrong on leaving the session comes after the answer and means nothing.
        """
        lent = self._port.session()
        try:
            with self._lending.wait():
                session = await lent.__aenter__()
        except TimeoutError:
            return Returned()
        try:
            return await self._submit_in(session, ready, envelope)
        finally:
            await lent.__aexit__(*sys.exc_info())

    async def _submit_in(
        self, session: Session, ready: Ready, envelope: Envelope
    ) -> Evidence | Returned:
        began = time.monotonic()
        answer = await self._open(ready, self._port.units_of(envelope.message))
        if answer is not Answer.OPENED:
            return Returned(answer=answer)
        self._progress.opened()
        # The opening was checked against the lease; time may have passed since (a paused process).
        late = time.monotonic() - began > self._shop.rhythm.lease.total_seconds() / 3
        if late or self._submitting.lost:
            return NOT_BEGUN
        return await self._submit(session, envelope)

    async def _open(self, ready: Ready, units: int | None) -> Answer:
        row, recorder = ready.claimed, self._shop.recorder
        seal = recorder.seal_opening(
            row.intent_id, seq=row.seq + 1, number=ready.number, decision_seq=row.decision_seq
        )
        opening = Opening(
            intent_id=row.intent_id,
            seq=row.seq,
            decision_seq=row.decision_seq,
            claim_token=ready.claim_token,
            go_until=ready.go_until,
            seal=seal,
            domain_key=row.domain_key,
            units=units,
        )
        return await self._openings.groups.add(opening)

    async def _submit(self, session: Session, envelope: Envelope) -> Evidence:
        began = time.monotonic()
        try:
            with self._submitting.wait():
                return await self._port.submit(session, envelope)
        except TimeoutError:
            why = "shutdown" if self._submitting.lost else "timeout"
            return Evidence(stage="submit", fault=why, handed_over=True, answered=False)
        finally:
            self._meter.submitted(time.monotonic() - began)

    async def _record(self, ready: Ready, evidence: Evidence) -> Recorded:
        row = ready.claimed
        begun = evidence is not NOT_BEGUN
        meaning = self._port.classify(evidence) if begun else NOT_BEGUN_MEANS
        finding = result_of(ready.number, evidence, meaning)
        entry = partial(self._entry, row, finding, evidence, meaning)
        seq = row.seq + 1 if row.status in CLEAN else 0
        told = self._told(row, finding, seq + 1) if self._shop.host.observing else None
        await self._recording.result(row.intent_id, seq, finding, entry, told)
        self._progress.recorded(meaning.outcome, meaning.rule)
        self._meter.outcome(meaning.outcome, meaning.scope)
        return Recorded(evidence=evidence, meaning=meaning)

    def _entry(
        self, row: Claimed, finding: Finding, evidence: Evidence, meaning: Classification
    ) -> Entry:
        """Return what the slow path takes."""
        return Entry(
            intent_id=row.intent_id,
            propose=lambda _: [finding],
            floor=longest(evidence.retry_after, meaning.retry_floor),
            attempts_max=meaning.attempts_max,
            chance=self._shop.chance(),
        )

    def _told(self, row: Claimed, finding: Finding, seq: int) -> Observed:
        """Return what observers hear of an acceptance on the fast path."""
        return observed(
            finding,
            seq=seq,
            intent_key=row.intent_key,
            channel=self._port.name,
            status=Status.SUBMITTED,
        )


def longest(one: timedelta | None, other: timedelta | None) -> timedelta | None:
    """Return the longer wait."""
    return max((wait for wait in (one, other) if wait is not None), default=None)
