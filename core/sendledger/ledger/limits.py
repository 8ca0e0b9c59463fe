"""What a channel may do at once and per second; all workers share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

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
    """Return the microseconds between two turns."""
    return max(1, round(1_000_000 / per_second))


def burst(per_second: float) -> int:
    """Return how many turns may come at once: a fifth of a second's, at least one.

    In any one second there are then at most 1.2 times as many as the limit says.
    """
    return max(1, int(per_second / 5))


def fitting(
    wanted: Sequence[tuple[Row, bytes | None]], open_now: Mapping[bytes | None, int], limits: Limits
) -> list[Row]:
    """Return those of *wanted*, (row, domain key), that fit beside what is open, in their order."""
    domains = dict(open_now)
    total = sum(domains.values())
    fits: list[Row] = []
    for row, domain in wanted:
        if limits.in_flight is not None and total >= limits.in_flight:
            break
        held = domains.get(domain, 0)
        bound = limits.domain_in_flight if domain is not None else None
        if bound is not None and held >= bound:
            continue
        domains[domain] = held + 1
        total += 1
        fits.append(row)
    return fits
