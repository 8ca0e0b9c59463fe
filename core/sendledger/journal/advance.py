"""One intent, one step: what is appended when findings come in, and what follows from it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from sendledger.ledger.decisions import Circumstances, after_refusal, decision_needed
from sendledger.ledger.findings import Finding, storable
from sendledger.ledger.fold import Rank, barred, fold, ranks
from sendledger.ledger.policy import Policy
from sendledger.ledger.rows import Attempt, Delivery, Origin, Row
from sendledger.ledger.words import Outcome, Provenance, Scope
from sendledger.store.ledger_rows import Locked

REFUSALS = frozenset({Outcome.TRANSIENT, Outcome.PERMANENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a locked intent stands: the only basis on which anything may be proposed."""

    locked: Locked
    rows: tuple[Row, ...]
    delivery: Delivery

    @property
    def attempts(self) -> list[Attempt]:
        """Its attempts, by number."""
        return [row for row in self.rows if isinstance(row, Attempt)]

    @property
    def barred(self) -> bool:
        """Whether another attempt is forbidden."""
        return barred(origin_of(self.locked), self.rows)

    def accepted_attempts(self) -> list[int]:
        """Return the numbers of attempts that stand accepted."""
        return self._standing_at(Rank.ACCEPTED)

    def unknown_attempts(self) -> list[int]:
        """Return the numbers of attempts whose result stands unknown."""
        return self._standing_at(Rank.UNKNOWN)

    def _standing_at(self, rank: Rank) -> list[int]:
        found = ranks(origin_of(self.locked), self.rows)
        return sorted(number for number, reached in found.items() if reached is rank)


Proposal = Callable[[Standing], Sequence[Finding]]
"""Looks at an intent under its lock and says what is to be appended; nothing is assumed from before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One intent's part of a group. ``chance`` in [0, 1) is the jitter of a retry it may lead to.

    ``floor`` and ``attempts_max`` are what the rule behind a refusal asks for.
    """

    intent_id: int
    propose: Proposal
    floor: timedelta | None = None
    attempts_max: int | None = None
    chance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """What one entry does: findings with their seq, and the delivery before and after."""

    locked: Locked
    before: Delivery
    after: Delivery
    rows: tuple[Row, ...]
    added: tuple[tuple[int, Finding], ...] = field(default=())

    @property
    def attempts(self) -> list[Attempt]:
        """The intent's attempts."""
        return [row for row in self.rows if isinstance(row, Attempt)]


def standing_of(locked: Locked, rows: Sequence[Row]) -> Standing:
    """Fold *rows* as they are stored."""
    return Standing(locked=locked, rows=tuple(rows), delivery=fold(origin_of(locked), rows))


def origin_of(locked: Locked) -> Origin:
    """Return what the fold needs of the intent itself."""
    return Origin(eligible_at=locked.eligible_at, provenance=Provenance(locked.provenance))


def advance(
    standing: Standing, entry: Entry, policy: Policy, known: set[tuple[str, str]]
) -> Advance:
    """Append what *entry* proposes, and beside each refusal the one decision that must go with it.

    *known* holds (source, identity) of every stored observation: a repeat changes nothing.
    """
    step = _Step(standing=standing, entry=entry, policy=policy, known=set(known))
    for finding in entry.propose(standing):
        step.take(finding)
    return Advance(
        locked=standing.locked,
        before=standing.delivery,
        after=step.delivery,
        rows=tuple(step.rows),
        added=tuple(step.added),
    )


def pause_scope(locked: Locked, scope: Scope) -> str:
    """Return the scope key that a fault of *scope* closes for this intent's batch."""
    if scope is Scope.SENDER:
        for key in locked.scope_keys:
            if key.startswith("sender:"):
                return key
    return f"channel:{locked.channel}"


class _Step:
    """Strictly private: rows and delivery while findings are taken in."""

    def __init__(
        self, *, standing: Standing, entry: Entry, policy: Policy, known: set[tuple[str, str]]
    ) -> None:
        self.standing, self.entry, self.policy, self.known = standing, entry, policy, known
        self.rows: list[Row] = list(standing.rows)
        self.delivery = standing.delivery
        self.added: list[tuple[int, Finding]] = []

    def take(self, finding: Finding) -> None:
        settled_before = self.delivery.settled
        if not self._append(finding):
            return
        if finding.outcome in REFUSALS and decision_needed(self.delivery):
            at = self._circumstances(finding, was_settled=settled_before)
            self._append(after_refusal(finding, self.delivery, at))

    def _append(self, finding: Finding) -> bool:
        finding = storable(finding)
        name = (str(finding.source), finding.identity)
        if name in self.known:
            return False
        self.known.add(name)
        seq = self.delivery.seq + 1
        self.rows.append(finding.at(seq))
        self.added.append((seq, finding))
        self.delivery = fold(origin_of(self.standing.locked), self.rows)
        return True

    def _circumstances(self, refusal: Finding, *, was_settled: bool) -> Circumstances:
        locked = self.standing.locked
        return Circumstances(
            policy=self.policy,
            now=locked.now,
            eligible_at=locked.eligible_at,
            not_after=locked.not_after,
            chance=self.entry.chance,
            pause_scope=pause_scope(locked, refusal.scope or Scope.CHANNEL),
            floor=self.entry.floor,
            attempts_max=self.entry.attempts_max,
            was_settled=was_settled,
        )


def follow(done: Advance, standing: Standing) -> Standing:
    """Return the standing that the next entry of the same intent starts from."""
    return replace(standing, rows=done.rows, delivery=done.after)
