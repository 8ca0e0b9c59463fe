"""Rows that met a full limit: when they may be tried again, so that nobody asks in vain all the time."""

from __future__ import annotations

from datetime import datetime, timedelta

from sendledger.ledger.limits import Limits
from sendledger.store.deliveries import Claimed
from sendledger.work.turns import HORIZON

DOMAINS_MAX = 1000
REST_MIN = timedelta(milliseconds=250)
_FIRST_GUESS = timedelta(milliseconds=100)
_SMOOTHING = 8


class LineUp:
    """Lines up the rows of full destination domains at the pace at which places there become free.

    It knows only how long handoffs take here; other workers line up their own, and the opening decides.
    """

    def __init__(self, limits: Limits) -> None:
        self._places = limits.domain_in_flight or 1
        self._handoff = _FIRST_GUESS
        self._tails: dict[bytes | None, datetime] = {}

    def lasted(self, handoff: timedelta) -> None:
        """Learn how long one handoff took."""
        self._handoff += (handoff - self._handoff) / _SMOOTHING

    def again_at(self, row: Claimed) -> datetime:
        """Return when *row*, whose domain is full, may be claimed again: behind those before it."""
        if len(self._tails) >= DOMAINS_MAX:
            self._tails.clear()
        tail = self._tails.get(row.domain_key, row.claimed_at)
        again_at = max(tail, row.claimed_at) + self._handoff / self._places
        again_at = min(again_at, row.claimed_at + HORIZON)
        self._tails[row.domain_key] = again_at
        return again_at

    def rest(self, at_most: timedelta, chance: float) -> timedelta:
        """Return how long a slot rests when the whole channel is full."""
        return min(at_most, max(REST_MIN, self._handoff)) * (0.5 + chance)
