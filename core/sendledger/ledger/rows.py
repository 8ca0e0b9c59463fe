"""The rows the fold reads: what a ledger holds about one intent, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sendledger.ledger.words import Awaits, Outcome, Provenance, Ruling, Scope, Source, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the fold needs of the intent itself."""

    eligible_at: datetime
    provenance: Provenance = Provenance.NATIVE

    @property
    def native(self) -> bool:
        """Whether we may act on it."""
        return self.provenance is Provenance.NATIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One numbered try; every instant was computed when it was opened."""

    seq: int
    number: int
    result_due_at: datetime
    unknown_due_at: datetime
    evidence_due_at: datetime
    window_ends_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One stored piece of evidence (``outcome``) or one decision (``ruling``), or a note (neither).

    ``attempt`` is None for what concerns the intent as a whole. ``later`` tells evidence that came
    after an acceptance (receipt, DSN, look-up) from the answer to the submission. ``due_at`` is the
    decision's own instant or, on an acceptance, how far it extends the wait for evidence.
    """

    seq: int
    source: Source
    rule: str
    attempt: int | None = None
    outcome: Outcome | None = None
    scope: Scope | None = None
    later: bool = False
    spent: bool = True
    opt_out: bool = False
    ruling: Ruling | None = None
    due_at: datetime | None = None
    authorises: int | None = None


Row = Attempt | Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The folded columns: where the ledger leaves an intent, and which row put it there.

    ``because`` is the seq of the row behind the present status; 0 is the intent itself.
    ``decision_seq`` names the decision that authorises the next attempt, once there was one.
    """

    status: Status
    awaits: Awaits | None
    due_at: datetime | None
    attempt_count: int = 0
    spent: int = 0
    contradicted: bool = False
    because: int = 0
    decision_seq: int | None = None
    seq: int = 0

    @property
    def settled(self) -> bool:
        """Not terminal, and nothing is awaited any more."""
        return self.awaits is None and not self.status.terminal
