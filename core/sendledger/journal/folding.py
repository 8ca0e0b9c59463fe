"""From stored rows to what the fold reads, and from its answer to the projection that is stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from sendledger.ledger.rows import Attempt, Delivery, Observation, Row
from sendledger.ledger.words import Awaits, Outcome, Ruling, Scope, Source, Status
from sendledger.store.ledger_rows import AttemptRow, DeliveryRow, ObservationRow


def attempt_of(row: AttemptRow) -> Attempt:
    """Return what the fold sees of a stored attempt."""
    return Attempt(
        seq=row.seq,
        number=row.number,
        result_due_at=row.result_due_at,
        unknown_due_at=row.unknown_due_at,
        evidence_due_at=row.evidence_due_at,
        window_ends_at=row.window_ends_at,
    )


def observation_of(row: ObservationRow) -> Observation:
    """Return what the fold sees of a stored observation."""
    return Observation(
        seq=row.seq,
        source=Source(row.source),
        rule=row.rule,
        attempt=row.attempt,
        outcome=None if row.outcome is None else Outcome(row.outcome),
        scope=None if row.scope is None else Scope(row.scope),
        later=row.later,
        spent=row.spent,
        opt_out=row.opt_out,
        ruling=None if row.ruling is None else Ruling(row.ruling),
        due_at=row.due_at,
        authorises=row.authorises,
    )


def ledger_order(
    attempts: Iterable[AttemptRow], observations: Iterable[ObservationRow]
) -> list[Row]:
    """Return attempts and observations of one intent by seq."""
    rows: list[Row] = [attempt_of(row) for row in attempts]
    rows += [observation_of(row) for row in observations]
    return sorted(rows, key=lambda row: row.seq)


def wake_at(
    delivery: Delivery, attempts: Sequence[Attempt], look_from: datetime | None = None
) -> datetime | None:
    """Return when the queue looks at *delivery* next: queue state, nobody's history.

    A submitted row wakes when its last evidence window ends, however often it is overdue before.
    *look_from* is from when its provider may be asked, None where nobody can be: then an unknown row
    wakes for that, and a submitted one as soon as it is overdue.
    """
    due = delivery.due_at
    match delivery.awaits:
        case Awaits.DISPATCH | Awaits.RETRY:
            return due
        case Awaits.EVIDENCE if delivery.status is Status.SUBMITTED and due is not None:
            ends = max([due, *(attempt.window_ends_at for attempt in attempts)])
            return ends if look_from is None else min(ends, max(due, look_from))
        case Awaits.EVIDENCE if due is not None and look_from is not None:
            return min(due, look_from)
        case Awaits.EVIDENCE:
            return due
        case _:
            return None


def delivery_row(
    intent_id: int,
    delivery: Delivery,
    attempts: Sequence[Attempt],
    look_from: datetime | None = None,
) -> DeliveryRow:
    """Return the projection as it is stored."""
    return DeliveryRow(
        intent_id=intent_id,
        status=delivery.status,
        awaits=delivery.awaits,
        due_at=delivery.due_at,
        wake_at=wake_at(delivery, attempts, look_from),
        attempt_count=delivery.attempt_count,
        spent=delivery.spent,
        contradicted=delivery.contradicted,
        because=delivery.because,
        decision_seq=delivery.decision_seq,
        seq=delivery.seq,
    )
