"""What a channel may do at once and per second; all workers share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Generic, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one channel; None is no bound. ``domain_`` bounds hold for each destination domain."""

    in_flight: int | None = None
    per_second: float | None = None
    domain_in_flight: int | None = None
    domain_per_second: float | None = None

    @property
    def bounds_flight(self) -> bool:
        """Whether openings must be counted."""
        return self.in_flight is not None or self.domain_in_flight is not None


def interval_us(per_second: float) -> int:
    """Return the microseconds between two turns, rounded to the slower side."""
    return ceil(1_000_000 / per_second)


def burst(per_second: float) -> int:
    """Return how many turns may come at once: a fifth of a second's, at least one.

    In any one second there are then at most 1.2 times as many as the limit says.
    """
    return max(1, int(per_second / 5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit(Generic[Row]):
    """Which rows may open, for which their domain is full, and for which the whole channel is."""

    fits: Sequence[Row]
    domain_full: Sequence[Row]
    channel_full: Sequence[Row]


def fit(
    wanted: Sequence[tuple[Row, bytes | None]], open_now: Mapping[bytes | None, int], limits: Limits
) -> Fit[Row]:
    """Return what of *wanted*, (row, domain key), fits beside what is open, in their order."""
    domains = dict(open_now)
    total = sum(domains.values())
    fits: list[Row] = []
    domain_full: list[Row] = []
    channel_full: list[Row] = []
    for row, domain in wanted:
        if limits.in_flight is not None and total >= limits.in_flight:
            channel_full.append(row)
        elif _is_full(domain, domains, limits):
            domain_full.append(row)
        else:
            domains[domain] = domains.get(domain, 0) + 1
            total += 1
            fits.append(row)
    return Fit(fits=fits, domain_full=domain_full, channel_full=channel_full)


def _is_full(domain: bytes | None, open_now: Mapping[bytes | None, int], limits: Limits) -> bool:
    bound = limits.domain_in_flight
    return bound is not None and domain is not None and open_now.get(domain, 0) >= bound
