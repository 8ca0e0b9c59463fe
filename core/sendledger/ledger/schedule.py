"""When the next attempt is due."""

from __future__ import annotations

from datetime import datetime, timedelta

from sendledger.ledger.durations import LONGEST
from sendledger.ledger.policy import LookUps, Policy

NO_WAIT = timedelta(0)


def retry_at(
    policy: Policy, *, spent: int, floor: timedelta | None, now: datetime, chance: float
) -> datetime:
    """Return when to try again after *spent* attempts; never before *floor* has passed.

    *chance* in [0, 1) spreads the retries of one outage upward, so that ten thousand rows deferred in
    the same second do not come back in the same second.
    """
    step = policy.retry_delays[min(spent, len(policy.retry_delays)) - 1] if spent else NO_WAIT
    return spread(policy, max(step, floor or NO_WAIT), now=now, chance=chance)


def spread(policy: Policy, wait: timedelta, *, now: datetime, chance: float) -> datetime:
    """Return *now* plus *wait*, lengthened by up to the policy's jitter.

    A peer may name any wait; beyond ten years it would leave the calendar, and is cut there.
    """
    return now + min(wait, LONGEST) * (1 + policy.jitter * chance)


def look_after(look_ups: LookUps, *, since: datetime, now: datetime) -> timedelta:
    """Return the wait before the next look-up of what is unknown or silent *since* then.

    As long as it has lasted already, so that it doubles each time; no count is kept.
    """
    return min(max(look_ups.first, now - since), look_ups.longest)


def probe_after(policy: Policy, probes: int) -> timedelta:
    """Return the wait before probe number *probes* + 1 of a closed scope: doubling, bounded."""
    doubled: timedelta = policy.probe * (2 ** min(probes, 16))
    return min(doubled, policy.probe_max)
