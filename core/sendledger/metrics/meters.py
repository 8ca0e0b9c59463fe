"""What one worker process counts of its own doing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from sendledger.metrics.labels import MEANINGS, NO_SCOPE, OTHER, REFUSALS
from sendledger.metrics.receipts import ReceiptMeters

# One more series for each, and nobody asks when a counter was made.
disable_created_metrics()  # type: ignore[no-untyped-call]

CLAIM_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
SUBMISSION_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
GROUP_ROWS = (1, 2, 5, 10, 20, 50, 100)

Commit = Literal["opening", "accepted", "recorded", "received"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelMeter:
    """The counters of one channel, found once: a call costs about a microsecond and no look-up."""

    claimed: Callable[[float], None]
    submitted: Callable[[float], None]
    meanings: Mapping[tuple[str, str], Callable[[], None]]
    unknown: Callable[[], None]

    def outcome(self, outcome: str, scope: str | None) -> None:
        """Count a piece of evidence that is committed now; only of a refusal is *scope* kept."""
        about = scope if scope is not None and outcome in REFUSALS else NO_SCOPE
        self.meanings.get((outcome, about), self.unknown)()


class Meters:
    """The counters of one process in a registry of their own. ``channels`` is the closed set of names."""

    def __init__(self, channels: Iterable[str] = ()) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._outcomes = Counter(
            "sendledger_outcomes",
            "Answers to attempts that this worker recorded; scope is what a refusal is about.",
            ["channel", "outcome", "scope"],
            registry=self.registry,
        )
        self._claims = Histogram(
            "sendledger_claim_seconds",
            "How long the database took to give this worker rows to hand over.",
            ["channel"],
            buckets=CLAIM_S,
            registry=self.registry,
        )
        self._submissions = Histogram(
            "sendledger_submission_seconds",
            "From handing over an envelope to the answer of the next hop.",
            ["channel"],
            buckets=SUBMISSION_S,
            registry=self.registry,
        )
        self._groups = Histogram(
            "sendledger_group_commit_rows",
            "How many rows this worker committed together.",
            ["commit"],
            buckets=GROUP_ROWS,
            registry=self.registry,
        )
        names = tuple(channels)
        self.receipts = ReceiptMeters(self.registry, names)
        self._channels = {name: self._channel(name, MEANINGS) for name in names}
        self._other: ChannelMeter | None = None

    def channel(self, name: str) -> ChannelMeter:
        """Return the meter of a channel; all that are not configured share one."""
        known = self._channels.get(name)
        if known is not None:
            return known
        if self._other is None:
            self._other = self._channel(OTHER, ())
        return self._other

    def group(self, commit: Commit) -> Callable[[int], None]:
        """Return what counts the rows of a group commit."""
        return self._groups.labels(commit).observe

    def _channel(self, name: str, meanings: Iterable[tuple[str, str]]) -> ChannelMeter:
        # What is known beforehand is made beforehand: a rate needs the zero that comes before the one.
        known = {pair: self._outcomes.labels(name, *pair).inc for pair in meanings}
        return ChannelMeter(
            claimed=self._claims.labels(name).observe,
            submitted=self._submissions.labels(name).observe,
            meanings=known,
            unknown=lambda: self._outcomes.labels(name, OTHER, OTHER).inc(),
        )
