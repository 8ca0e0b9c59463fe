"""Proposals: what to append, decided again under the lock of the row it concerns."""

from __future__ import annotations

from collections.abc import Sequence

from sendledger.journal.advance import Proposal, Standing
from sendledger.ledger import decisions
from sendledger.ledger.findings import Finding, lost_in_lease
from sendledger.ledger.policy import Policy
from sendledger.ledger.rows import Observation
from sendledger.ledger.words import Awaits, Status

WAITING = frozenset({Awaits.DISPATCH, Awaits.RETRY})


def when_waiting(finding: Finding) -> Proposal:
    """Propose a verdict, unless the row is no longer waiting to be dispatched."""

    def propose(standing: Standing) -> Sequence[Finding]:
        return [finding] if standing.delivery.awaits in WAITING else []

    return propose


def unless_told(finding: Finding) -> Proposal:
    """As :func:`when_waiting`, unless the last thing told of the row is this very rule."""
    propose_waiting = when_waiting(finding)

    def propose(standing: Standing) -> Sequence[Finding]:
        last = standing.rows[-1] if standing.rows else None
        told = isinstance(last, Observation) and last.rule == finding.rule
        return [] if told else propose_waiting(standing)

    return propose


def lost(standing: Standing) -> Sequence[Finding]:
    """Propose the unknown result of an open attempt whose lease has ended; never a resend."""
    delivery = standing.delivery
    overdue = delivery.due_at is not None and delivery.due_at < standing.locked.now
    if delivery.status is Status.SUBMITTING and (standing.locked.lease_ended or overdue):
        return [lost_in_lease(delivery.attempt_count)]
    return []


def wait_ended(policy: Policy) -> Proposal:
    """Propose what follows when evidence did not come in time.

    An unknown handoff is put to a person, or tried again where the written policy says so; silence
    after acceptance is settled as silence.
    """

    def propose(standing: Standing) -> Sequence[Finding]:
        delivery, now = standing.delivery, standing.locked.now
        if delivery.awaits is not Awaits.EVIDENCE or delivery.due_at is None:
            return []
        if delivery.status is Status.AMBIGUOUS:
            return _unknown(standing, policy) if delivery.due_at <= now else []
        ends = [delivery.due_at, *(attempt.window_ends_at for attempt in standing.attempts)]
        if max(ends) > now:
            return []
        return [decisions.close_window(number) for number in standing.accepted_attempts()]

    return propose


def _unknown(standing: Standing, policy: Policy) -> list[Finding]:
    n, now = standing.delivery.attempt_count, standing.locked.now
    unknown = max(standing.unknown_attempts(), default=n)
    not_after = standing.locked.not_after
    in_time = not_after is None or now < not_after
    may_retry = n < policy.attempts_hard_max and in_time and not standing.barred
    if policy.unknown_then == "retry" and may_retry:
        return [decisions.retry(n + 1, rule="policy.retry-unknown", due_at=now)]
    return [decisions.ask(unknown, rule="policy.unknown-handoff", now=now)]
