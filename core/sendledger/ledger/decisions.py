"""What follows from evidence: pure functions from a standing to the findings that record a decision."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sendledger.ledger.findings import Finding
from sendledger.ledger.policy import Policy
from sendledger.ledger.rows import Delivery
from sendledger.ledger.schedule import retry_at, spread
from sendledger.ledger.words import Awaits, Outcome, Ruling, Scope, Source, Status

ATTEMPTS_MAX = 50
"""How many attempts the ledger itself admits; a policy may stop earlier, nobody goes further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a decision may look at besides the delivery; ``now`` is the database's clock.

    ``pause_scope`` is the scope key that a configuration fault of this refusal pauses.
    ``floor`` is the least wait that the rule behind the refusal asks for, ``attempts_max`` its own bound on
    spent attempts, where that is tighter than the policy's. ``was_settled`` tells that
    nothing was awaited any more when the refusal came: then a person is asked instead of a retry.
    """

    policy: Policy
    now: datetime
    eligible_at: datetime
    not_after: datetime | None
    chance: float
    pause_scope: str = ""
    floor: timedelta | None = None
    attempts_max: int | None = None
    was_settled: bool = False

    @property
    def ceiling(self) -> int:
        """How many attempts may be spent."""
        most = self.policy.ceiling
        return most if self.attempts_max is None else min(self.attempts_max, most)


def decision_needed(delivery: Delivery) -> bool:
    """Whether a refusal has left *delivery* without the decision that must stand beside it."""
    return delivery.status is Status.DEFERRED and delivery.awaits is Awaits.DECISION


def after_refusal(refusal: Finding, delivery: Delivery, at: Circumstances) -> Finding:
    """Return the one decision stored with a transient refusal: retry, hold, exhausted, expired or ask.

    *delivery* already counts the refusal. A fault of ours is never spent; it retries until the hard
    maximum, or is held while the configuration is at fault.
    """
    n = delivery.attempt_count
    # By seq, as every hold: one may have stood before this attempt, under its number or another.
    held = f"hold/{delivery.seq}"
    if refusal.outcome is Outcome.PERMANENT and refusal.scope in {Scope.SENDER, Scope.CHANNEL}:
        return hold(refusal.rule, identity=held, cause=at.pause_scope, now=at.now)
    if at.was_settled:
        return ask(n, rule="policy.refused-after-settled", now=at.now)
    if n >= at.policy.attempts_hard_max:
        rule = "policy.attempts-hard-max"
        return hold(rule, identity=held, cause=rule, now=at.now)
    if refusal.spent and delivery.spent >= at.ceiling:
        return _ruled(Ruling.EXHAUST, "policy.exhausted", f"exhaust/{n}")
    due = _next_attempt(refusal, delivery, at)
    if past_deadline(due, at):
        return expired(n)
    return retry(n + 1, rule="policy.retry", due_at=due)


def _next_attempt(refusal: Finding, delivery: Delivery, at: Circumstances) -> datetime:
    if refusal.spent:
        return retry_at(
            at.policy, spent=delivery.spent, floor=at.floor, now=at.now, chance=at.chance
        )
    wait = max(at.policy.probe, at.floor or at.policy.probe)
    return spread(at.policy, wait, now=at.now, chance=at.chance)


def past_deadline(due: datetime, at: Circumstances) -> bool:
    """Whether an attempt due then would come after the intent's or the policy's last instant."""
    if at.not_after is not None and due >= at.not_after:
        return True
    return at.policy.give_up_after is not None and due > at.eligible_at + at.policy.give_up_after


def retry(number: int, *, rule: str, due_at: datetime) -> Finding:
    """Authorise attempt *number*, not before *due_at*."""
    return Finding(
        source=Source.POLICY,
        rule=rule,
        identity=f"retry/{number}",
        ruling=Ruling.RETRY,
        due_at=due_at,
        authorises=number,
    )


def hold(rule: str, *, identity: str, cause: str, now: datetime) -> Finding:
    """Hold the row until *cause* is gone or somebody releases it."""
    return Finding(
        source=Source.POLICY,
        rule=rule,
        identity=identity,
        ruling=Ruling.HOLD,
        due_at=now,
        cause=cause,
    )


def release(next_number: int | None, *, identity: str, now: datetime, actor: str | None) -> Finding:
    """Release a held row; on a refused one it is the decision for *next_number*."""
    return Finding(
        source=Source.OPERATOR if actor else Source.POLICY,
        rule="operator.resumed" if actor else "policy.cause-gone",
        identity=identity,
        ruling=Ruling.RELEASE,
        due_at=now,
        authorises=next_number,
        actor=actor,
    )


def ask(number: int, *, rule: str, now: datetime) -> Finding:
    """Ask a person what to do about attempt *number*; evidence still settles it."""
    return Finding(
        source=Source.POLICY,
        rule=rule,
        identity=f"ask/{rule}/{number}",
        attempt=number,
        ruling=Ruling.ASK,
        due_at=now,
    )


def close_window(number: int) -> Finding:
    """End the wait for evidence of attempt *number*: silence, settled as such, never renamed delivered."""
    return Finding(
        source=Source.POLICY,
        rule="evidence.window-closed",
        identity=f"window/{number}",
        attempt=number,
        ruling=Ruling.CLOSE,
    )


def expired(number: int) -> Finding:
    """Bar the row: the next attempt would come after its last instant."""
    return _ruled(Ruling.EXPIRE, "policy.expired", f"expire/{number}")


def fault(rule: str, number: int) -> Finding:
    """Bar the row: its content can never be written for this recipient."""
    return _ruled(Ruling.FAULT, rule, f"fault/{number}")


def denied(rule: str, number: int) -> Finding:
    """Bar the row: a standing refusal covers its destination."""
    return _ruled(Ruling.SUPPRESS, rule, f"suppress/{number}")


def wait(rule: str, until: datetime) -> Finding:
    """Wait until *until*; written once for each rule and end."""
    return Finding(
        source=Source.POLICY,
        rule=rule,
        identity=f"wait/{rule}/{until.isoformat()}",
        ruling=Ruling.WAIT,
        due_at=until,
    )


def _ruled(ruling: Ruling, rule: str, identity: str) -> Finding:
    return Finding(source=Source.POLICY, rule=rule, identity=identity, ruling=ruling)
