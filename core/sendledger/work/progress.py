"""What a worker has done since it started: counts for whoever watches, nothing that decides."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sendledger.metrics.meters import Meters


@dataclass(slots=True, kw_only=True)
class Progress:
    """Counts for people, and ``meters`` for machines.

    ``in_flight`` is how many attempts are open and unrecorded now.
    """

    claimed: int = 0
    in_flight: int = 0
    in_flight_peak: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    rulings: Counter[str] = field(default_factory=Counter)
    recovered: int = 0
    notes: list[str] = field(default_factory=list)
    meters: Meters = field(default_factory=Meters)

    def opened(self) -> None:
        """Count one more open attempt."""
        self.in_flight += 1
        self.in_flight_peak = max(self.in_flight_peak, self.in_flight)

    def recorded(self, outcome: str, rule: str) -> None:
        """Count an open attempt whose result is committed now."""
        self.in_flight -= 1
        self.outcomes[outcome] += 1
        self.rules[rule] += 1
