"""Folding receipts: out of the inbox and into the ledger in one transaction, or aside with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sendledger.journal.advance import Advance, Entry, Standing
from sendledger.journal.inbox import evidence_of
from sendledger.journal.record import Recorder
from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.findings import Finding, later_of
from sendledger.ledger.words import Source
from sendledger.store import inbox, scopes, side_effects
from sendledger.store.database import Connection, Database, DatabaseError
from sendledger.store.inbox import ReceiptRow
from sendledger.store.scopes import NewPause
from sendledger.store.side_effects import NewTask

EVERYTHING = "all"
COMMITS_LOST = "receipt.no-attempt"

Classify = Callable[[str, Evidence], Classification]
"""What a receipt of a channel means."""


class Reason(StrEnum):
    """Why a receipt is set aside instead of folded."""

    UNTIED = "untied"
    NO_INTENT = "no-intent"
    NO_ATTEMPT = "no-attempt"
    OTHER_CHANNEL = "other-channel"
    REFUSED = "refused"


LOST = frozenset({Reason.NO_INTENT, Reason.NO_ATTEMPT})
"""A verified token of what is not in the ledger: it stood there when the message went out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What became of receipts, by inbox id: which were taken, what they advanced, why some were set aside."""

    taken: frozenset[int] = frozenset()
    advances: Sequence[Advance] = ()
    aside: Mapping[int, Reason] = field(default_factory=dict)

    @property
    def added(self) -> set[tuple[int, str, str]]:
        """Intent, source and identity of everything that is new in the ledger."""
        return {
            (done.locked.intent_id, str(finding.source), finding.identity)
            for done in self.advances
            for _, finding in done.added
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A receipt with what it means; ``chance`` is the jitter of a retry it may lead to."""

    row: ReceiptRow
    meaning: Classification
    chance: float

    @property
    def entry(self) -> Entry:
        """What it asks of the ledger."""
        assert self.row.intent_id is not None
        return Entry(
            intent_id=self.row.intent_id,
            propose=self._propose,
            floor=self.meaning.retry_floor,
            attempts_max=self.meaning.attempts_max,
            chance=self.chance,
        )

    def aside(self, done: Mapping[int | None, Advance]) -> Reason | None:
        """Return why it cannot be folded, None when it was; *done* is by intent."""
        if self.row.intent_id is None or self.row.attempt is None:
            return Reason.UNTIED
        found = done.get(self.row.intent_id)
        if found is None:
            return Reason.NO_INTENT
        if found.locked.channel != self.row.channel:
            return Reason.OTHER_CHANNEL
        opened = any(attempt.number == self.row.attempt for attempt in found.attempts)
        return None if opened else Reason.NO_ATTEMPT

    def _propose(self, standing: Standing) -> Sequence[Finding]:
        ours = standing.locked.channel == self.row.channel
        opened = any(attempt.number == self.row.attempt for attempt in standing.attempts)
        return [self._finding()] if ours and opened else []

    def _finding(self) -> Finding:
        row = self.row
        assert row.attempt is not None
        evidence = evidence_of(row.evidence, row.body)
        source = Source(row.source)
        found = later_of(row.attempt, evidence, self.meaning, source=source, identity=row.identity)
        return replace(found, occurred_at=row.occurred_at, received_at=row.received_at)


def read_receipt(row: ReceiptRow, classify: Classify, *, chance: float) -> Reading:
    """Return *row* with what it means."""
    meaning = classify(row.channel, evidence_of(row.evidence, row.body))
    return Reading(row=row, meaning=meaning, chance=chance)


async def fold_receipts(recorder: Recorder, readings: Sequence[Reading]) -> Folded:
    """Fold receipts into the ledger and out of the inbox, in one transaction.

    Those that somebody else is folding are left to them. What cannot be tied to an attempt is set
    aside, and so is what the database refuses even alone. Raises ``DatabaseAway``.
    """
    try:
        async with recorder.database.transaction() as connection:
            return await _fold(connection, recorder, readings)
    except DatabaseError:
        if len(readings) > 1:
            return _together([await fold_receipts(recorder, [reading]) for reading in readings])
    return await _refuse(recorder.database, readings[0].row.inbox_id)


async def _fold(connection: Connection, recorder: Recorder, readings: Sequence[Reading]) -> Folded:
    ids = await inbox.take_receipts(connection, [reading.row.inbox_id for reading in readings])
    taken = [reading for reading in readings if reading.row.inbox_id in ids]
    tied = [reading.entry for reading in taken if reading.row.intent_id is not None]
    advances = await recorder.record_in(connection, tied) if tied else []
    done: dict[int | None, Advance] = {step.locked.intent_id: step for step in advances}
    found = {reading.row.inbox_id: reading.aside(done) for reading in taken}
    aside = {inbox_id: reason for inbox_id, reason in found.items() if reason is not None}
    await _set_aside(connection, aside)
    if ids:
        await inbox.drop_receipts(connection, sorted(ids))
    return Folded(taken=frozenset(ids), advances=advances, aside=aside)


async def _set_aside(connection: Connection, aside: Mapping[int, Reason]) -> None:
    """Keep what cannot be folded. What the ledger has forgotten stops everything until somebody looks."""
    if not aside:
        return
    await inbox.quarantine_receipts(connection, {i: str(reason) for i, reason in aside.items()})
    if LOST & set(aside.values()):
        pause = NewPause(scope_key=EVERYTHING, rule=COMMITS_LOST, began_by="receipt")
        await scopes.note_pause(connection, pause)
        task = NewTask(kind="commits-lost", cause=COMMITS_LOST, scope_key=EVERYTHING)
        await side_effects.open_tasks(connection, [task])


async def _refuse(database: Database, inbox_id: int) -> Folded:
    aside = {inbox_id: Reason.REFUSED}
    async with database.transaction() as connection:
        taken = await inbox.take_receipts(connection, [inbox_id])
        if not taken:
            return Folded()
        await _set_aside(connection, aside)
        await inbox.drop_receipts(connection, [inbox_id])
    return Folded(taken=frozenset({inbox_id}), aside=aside)


def _together(parts: Sequence[Folded]) -> Folded:
    return Folded(
        taken=frozenset().union(*(part.taken for part in parts)),
        advances=[step for part in parts for step in part.advances],
        aside={inbox_id: reason for part in parts for inbox_id, reason in part.aside.items()},
    )
