"""Short names for the rows of a ledger, so that a history reads like a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sendledger.ledger.rows import Attempt, Observation, Origin, Row
from sendledger.ledger.words import Outcome, Provenance, Ruling, Scope, Source

T0 = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def at(minutes: float) -> datetime:
    """Return the instant so many minutes after the intent became eligible."""
    return T0 + timedelta(minutes=minutes)


NATIVE = Origin(eligible_at=T0)
SHADOW = Origin(eligible_at=T0, provenance=Provenance.SHADOW)
IMPORTED = Origin(eligible_at=T0, provenance=Provenance.IMPORTED)


def numbered(rows: Iterable[Row]) -> list[Row]:
    """Return *rows* with the seq that their order gives them."""
    return [replace(row, seq=seq) for seq, row in enumerate(rows, start=1)]


def opened(number: int) -> Attempt:
    """Open attempt *number* at minute 10 * number."""
    return Attempt(
        seq=0,
        number=number,
        result_due_at=at(10 * number + 1),
        unknown_due_at=at(10 * number + 100),
        evidence_due_at=at(10 * number + 1000),
        window_ends_at=at(10 * number + 2000),
    )


def heard(
    attempt: int,
    outcome: Outcome,
    *,
    scope: Scope = Scope.RECIPIENT,
    later: bool = False,
    opt_out: bool = False,
    until: datetime | None = None,
    source: Source = Source.CHANNEL,
) -> Observation:
    """Bring evidence about one attempt; *until* is how far an acceptance extends the wait."""
    refusal = outcome in {Outcome.TRANSIENT, Outcome.PERMANENT}
    return Observation(
        seq=0,
        source=source,
        rule="test.evidence",
        attempt=attempt,
        outcome=outcome,
        scope=scope if refusal else None,
        later=later,
        spent=not (refusal and scope.ours),
        opt_out=opt_out,
        due_at=until,
    )


def accepted(attempt: int, *, until: datetime | None = None) -> Observation:
    """Say that the next hop took it; *until* extends the wait for what comes then."""
    return heard(attempt, Outcome.ACCEPTED, until=until)


def unknown(attempt: int) -> Observation:
    """Say that it was handed over and not answered."""
    return heard(attempt, Outcome.AMBIGUOUS)


def lost(attempt: int) -> Observation:
    """Say that its worker went away."""
    return heard(attempt, Outcome.AMBIGUOUS, source=Source.LEASE)


def delivered(attempt: int) -> Observation:
    """Say, as a receipt, that it arrived."""
    return heard(attempt, Outcome.DELIVERED, later=True, source=Source.RECEIPT)


def refused(
    attempt: int,
    *,
    final: bool = False,
    later: bool = False,
    scope: Scope = Scope.RECIPIENT,
    opt_out: bool = False,
) -> Observation:
    """Say not now (or, when *final*, never), in answer to the submission or *later*."""
    outcome = Outcome.PERMANENT if final else Outcome.TRANSIENT
    source = Source.RECEIPT if later else Source.CHANNEL
    return heard(attempt, outcome, scope=scope, later=later, opt_out=opt_out, source=source)


def claimed_by_operator(attempt: int) -> Observation:
    """Say, as a person, that an unknown handoff was accepted."""
    return heard(attempt, Outcome.ACCEPTED, source=Source.OPERATOR)


def note(attempt: int) -> Observation:
    """Keep something that no rule maps; it moves nothing."""
    return Observation(seq=0, source=Source.RECEIPT, rule="test.unmapped", attempt=attempt)


def ruled(
    ruling: Ruling,
    due: datetime | None = None,
    *,
    attempt: int | None = None,
    authorises: int | None = None,
) -> Observation:
    """Decide, as a policy."""
    return Observation(
        seq=0,
        source=Source.POLICY,
        rule="test.ruling",
        attempt=attempt,
        ruling=ruling,
        due_at=due,
        authorises=authorises,
    )


def retry(number: int, due: datetime) -> Observation:
    """Authorise attempt *number*."""
    return ruled(Ruling.RETRY, due, authorises=number)


def wait(due: datetime) -> Observation:
    """Wait until *due*."""
    return ruled(Ruling.WAIT, due)


def hold(due: datetime) -> Observation:
    """Hold until somebody looks."""
    return ruled(Ruling.HOLD, due)


def release(due: datetime, *, authorises: int | None = None) -> Observation:
    """Release what was held."""
    return ruled(Ruling.RELEASE, due, authorises=authorises)


def ask(attempt: int, due: datetime) -> Observation:
    """Ask a person what becomes of *attempt*."""
    return ruled(Ruling.ASK, due, attempt=attempt)


def close(attempt: int) -> Observation:
    """Expect nothing more of *attempt*."""
    return ruled(Ruling.CLOSE, attempt=attempt)
