"""The fold: from the rows of one intent, in ledger order, to its delivery.

Evidence about attempt k lifts attempt k and never lowers it; the ranks below are that order. Then the
first rule that applies names the status (see :meth:`_Fold.standing`). Reads no clock, no configuration
and no lease, so a rebuild in ten years gives the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntEnum

from sendledger.ledger.rows import Attempt, Delivery, Observation, Origin, Row
from sendledger.ledger.words import Awaits, Outcome, Ruling, Source, Status


class Rank(IntEnum):
    """How much is known of an attempt. *Now* answers the submission, *later* follows acceptance."""

    OPEN = 0
    UNKNOWN = 1
    REFUSED_NOW_TRANSIENT = 2
    REFUSED_NOW = 3
    ACCEPTED = 4
    REFUSED_LATER_TRANSIENT = 5
    REFUSED_LATER = 6
    DELIVERED = 7


PERMANENT = frozenset({Rank.REFUSED_NOW, Rank.REFUSED_LATER})

BARS = {
    Ruling.SUPPRESS: Status.SUPPRESSED,
    Ruling.EXPIRE: Status.FAILED,
    Ruling.EXHAUST: Status.FAILED,
    Ruling.FAULT: Status.FAILED,
    Ruling.STOP: Status.FAILED,
    Ruling.ERASE: Status.FAILED,
}

View = tuple[Status, Awaits | None, datetime | None]


def rank_of(observation: Observation) -> Rank | None:
    """Return how far *observation* lifts its attempt, or None when it says nothing of it.

    A permanent refusal of scope sender or channel is a configuration fault: it counts as transient,
    because it is no word about the recipient.
    """
    match observation.outcome:
        case None:
            return None
        case Outcome.ACCEPTED:
            return Rank.ACCEPTED
        case Outcome.DELIVERED:
            return Rank.DELIVERED
        case Outcome.AMBIGUOUS:
            return Rank.UNKNOWN
        case Outcome.TRANSIENT | Outcome.PERMANENT:
            ours = observation.scope is not None and observation.scope.ours
            final = observation.outcome is Outcome.PERMANENT and not ours
            if observation.later:
                return Rank.REFUSED_LATER if final else Rank.REFUSED_LATER_TRANSIENT
            return Rank.REFUSED_NOW if final else Rank.REFUSED_NOW_TRANSIENT


def fold(origin: Origin, rows: Iterable[Row]) -> Delivery:
    """Return where *rows*, in ascending seq, leave the intent.

    The first prefix with a terminal settles it; later evidence for another terminal only marks it
    contradicted. Evidence that does not contradict folds the same in any order.
    """
    return _folded(origin, rows).delivery()


def ranks(origin: Origin, rows: Iterable[Row]) -> dict[int, Rank]:
    """Return how much *rows* tell of each attempt."""
    return _folded(origin, rows).ranks()


def barred(origin: Origin, rows: Iterable[Row]) -> bool:
    """Whether *rows* forbid another attempt: suppressed, expired, stopped or the like."""
    return _folded(origin, rows).barred is not None


def _folded(origin: Origin, rows: Iterable[Row]) -> _Fold:
    state = _Fold(origin=origin)
    for row in rows:
        state.apply(row)
    return state


@dataclass(slots=True, kw_only=True)
class _Fold:
    """Strictly private: the running state between two rows.

    ``newest`` is the highest attempt number, 0 when there is none; ``view`` where the rows so far leave it.
    """

    origin: Origin
    attempts: dict[int, Attempt] = field(default_factory=dict)
    seen: dict[int, set[Rank]] = field(default_factory=dict)
    newest: int = 0
    extended: dict[int, datetime] = field(default_factory=dict)
    retries: dict[int, datetime] = field(default_factory=dict)
    asked: dict[int, datetime] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    unspent: set[int] = field(default_factory=set)
    opted_out: bool = False
    held: datetime | None = None
    wait: datetime | None = None
    barred: Status | None = None
    stopped: bool = False
    terminal: Status | None = None
    because: int = 0
    decision_seq: int | None = None
    seq: int = 0
    view: View = field(init=False)

    def __post_init__(self) -> None:
        self.view = self._standing()

    def apply(self, row: Row) -> None:
        """Take one more row; remember it as the cause when the standing moved."""
        before = self.view
        if isinstance(row, Attempt):
            self._open(row)
        elif row.ruling is not None:
            self._rule(row, row.ruling, before[0])
        else:
            self._witness(row)
        self.seq = row.seq
        self._settle()
        self.view = self._standing()
        if self.view != before:
            self.because = row.seq

    def delivery(self) -> Delivery:
        """Return the folded columns."""
        status, awaits, due_at = self.view
        return Delivery(
            status=status,
            awaits=awaits,
            due_at=due_at,
            attempt_count=self.newest,
            spent=sum(1 for k in self.seen if k > 0 and k not in self.unspent),
            contradicted=self._contradicted(),
            because=self.because,
            decision_seq=self.decision_seq,
            seq=self.seq,
        )

    # --- taking rows in ----------------------------------------------------------------------

    def _open(self, attempt: Attempt) -> None:
        self.attempts[attempt.number] = attempt
        self._see(attempt.number, Rank.OPEN)
        self.held = self.wait = self.decision_seq = None

    def _witness(self, seen: Observation) -> None:
        rank, k = rank_of(seen), seen.attempt
        if rank is None or k is None:
            return
        if seen.source is Source.OPERATOR and self.rank(k) is not Rank.UNKNOWN:
            return  # a person may say what became of an unknown handoff, never overrule evidence
        self._see(k, rank)
        if not seen.spent:
            self.unspent.add(k)
        self.opted_out |= seen.opt_out and rank in PERMANENT
        if rank is Rank.ACCEPTED and seen.due_at is not None:
            self.extended[k] = max(seen.due_at, self.extended.get(k, seen.due_at))

    def _see(self, k: int, rank: Rank) -> None:
        self.seen.setdefault(k, set()).add(rank)
        self.newest = max(self.newest, k)

    def _rule(self, seen: Observation, ruling: Ruling, status: Status) -> None:
        due = seen.due_at
        match ruling:
            case Ruling.RETRY if due and seen.authorises == self.newest + 1:
                self.retries[self.newest + 1] = due
                self.decision_seq = seen.seq
            case Ruling.WAIT:
                self.wait = due
            case Ruling.HOLD:
                self.held = due
            case Ruling.RELEASE if self.held is not None:
                self._release(seen, status)
            case Ruling.ASK if due and seen.attempt is not None:
                self.asked[seen.attempt] = due
            case Ruling.CLOSE if seen.attempt is not None:
                self.closed.add(seen.attempt)
            case _ if ruling in BARS and self.terminal is None:
                self.barred = self.barred or BARS[ruling]
                self.stopped |= ruling in {Ruling.STOP, Ruling.ERASE}
            case _:
                pass  # stored, and moves nothing

    def _release(self, seen: Observation, status: Status) -> None:
        self.held, self.wait = None, seen.due_at
        if seen.due_at and self.newest and status is Status.DEFERRED:
            self.retries.setdefault(self.newest + 1, seen.due_at)
        if seen.authorises is not None:
            self.decision_seq = seen.seq

    def _settle(self) -> None:
        if self.terminal is not None:
            return
        ranks = self.ranks()
        if Rank.DELIVERED in ranks.values():
            self.terminal = Status.DELIVERED
        elif not self._opened(ranks) and not {Rank.UNKNOWN, Rank.ACCEPTED} & set(ranks.values()):
            if PERMANENT & set(ranks.values()):
                self.terminal = Status.SUPPRESSED if self.opted_out else Status.FAILED
            elif self.barred:
                self.terminal = self.barred

    # --- reading the state -------------------------------------------------------------------

    def rank(self, k: int) -> Rank:
        """Return the highest rank seen of attempt *k*."""
        return max(self.seen.get(k, {Rank.OPEN}))

    def ranks(self) -> dict[int, Rank]:
        """Return every attempt's highest rank."""
        return {k: max(ranks) for k, ranks in self.seen.items()}

    def _standing(self) -> View:
        """Return status, awaits and due instant: the first rule that applies."""
        if self.terminal is not None:
            return self.terminal, None, None
        ranks = self.ranks()
        if self._opened(ranks):
            return Status.SUBMITTING, Awaits.RESULT, self.attempts[self.newest].result_due_at
        if Rank.ACCEPTED in ranks.values():
            return self._submitted([k for k, rank in ranks.items() if rank is Rank.ACCEPTED])
        if Rank.UNKNOWN in ranks.values():
            return self._ambiguous(max(k for k, rank in ranks.items() if rank is Rank.UNKNOWN))
        if ranks:
            return self._deferred()
        return self._planned()

    def _opened(self, ranks: dict[int, Rank]) -> bool:
        return self.newest > 0 and ranks[self.newest] is Rank.OPEN

    @property
    def _quiet(self) -> bool:
        return self.stopped or not self.origin.native

    def _submitted(self, accepted: list[int]) -> View:
        if self._quiet or all(k in self.closed for k in accepted):
            return Status.SUBMITTED, None, None
        dues = [self.attempts[k].evidence_due_at for k in accepted if k in self.attempts]
        dues += [self.extended[k] for k in accepted if k in self.extended]
        return Status.SUBMITTED, Awaits.EVIDENCE, max(dues, default=self.origin.eligible_at)

    def _ambiguous(self, k: int) -> View:
        if self._quiet:
            return Status.AMBIGUOUS, None, None
        if self._pending is not None:
            return Status.AMBIGUOUS, *self._retry_or_release(self._pending)
        if k in self.asked:
            return Status.AMBIGUOUS, Awaits.DECISION, self.asked[k]
        due = self.attempts[k].unknown_due_at if k in self.attempts else self.origin.eligible_at
        return Status.AMBIGUOUS, Awaits.EVIDENCE, due

    def _deferred(self) -> View:
        if self._quiet:
            return Status.DEFERRED, None, None
        if self.held is not None:
            return Status.DEFERRED, Awaits.RELEASE, self.held
        if self._pending is not None:
            return Status.DEFERRED, *self._retry_or_release(self._pending)
        due = self.asked.get(self.newest, self.origin.eligible_at)
        return Status.DEFERRED, Awaits.DECISION, due

    def _planned(self) -> View:
        if self._quiet:
            return Status.PLANNED, None, None
        if self.held is not None:
            return Status.PLANNED, Awaits.RELEASE, self.held
        return Status.PLANNED, Awaits.DISPATCH, self._not_before(self.origin.eligible_at)

    @property
    def _pending(self) -> datetime | None:
        return None if self.barred else self.retries.get(self.newest + 1)

    def _retry_or_release(self, due: datetime) -> tuple[Awaits, datetime]:
        if self.held is not None:
            return Awaits.RELEASE, self.held
        return Awaits.RETRY, self._not_before(due)

    def _not_before(self, due: datetime) -> datetime:
        return due if self.wait is None else max(due, self.wait)

    def _contradicted(self) -> bool:
        ever = set().union(*self.seen.values()) if self.seen else set()
        match self.terminal:
            case None:
                return False
            case Status.DELIVERED:
                return bool(ever & PERMANENT)
            case _:
                return Rank.DELIVERED in ever


def unchanged(before: Delivery, after: Delivery) -> bool:
    """Whether two foldings differ in nothing but how many rows were read."""
    return replace(before, seq=after.seq, because=after.because) == after
