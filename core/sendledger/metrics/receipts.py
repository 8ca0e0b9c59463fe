"""What one process counts of the evidence that comes to it, and of the evidence it asks for."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram

from sendledger.metrics.labels import OTHER, Closed, Learned

CALLBACK_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
ANSWERS = ("kept", "empty", "refused", "away", "failed")
"""What became of a callback; ``empty`` is acknowledged and says nothing of a delivery."""

FATES = ("folded", "repeated", "unmapped", "set-aside")
"""What became of a receipt in the inbox; ``unmapped`` was folded and known to no rule."""

FOUND = ("none", "one", "several", "failed")


class ReceiptMeters:
    """The counters of callbacks, receipts and look-ups. ``channels`` is the closed set of names."""

    def __init__(self, registry: CollectorRegistry, channels: Iterable[str]) -> None:
        self._channel = Closed(channels)
        self._reason = Learned()
        self._callbacks = Counter(
            "sendledger_callbacks",
            "Callbacks that this process answered, by what became of them.",
            ["channel", "answer"],
            registry=registry,
        )
        self._refusals = Counter(
            "sendledger_callbacks_refused",
            "Callbacks that were refused, by the channel's word for why.",
            ["channel", "reason"],
            registry=registry,
        )
        self._seconds = Histogram(
            "sendledger_callback_seconds",
            "From the first byte of a callback to its answer, committed.",
            ["channel"],
            buckets=CALLBACK_S,
            registry=registry,
        )
        # Found once: a look-up of labels costs more than all else that is counted here.
        self._answered = {
            (name, answer): (
                self._callbacks.labels(name, answer).inc,
                self._seconds.labels(name).observe,
            )
            for name in (*self._channel.words, OTHER)
            for answer in ANSWERS
        }
        self._receipts = Counter(
            "sendledger_receipts",
            "Receipts that this process took out of the inbox, by what became of them.",
            ["channel", "fate"],
            registry=registry,
        )
        self._looks = Counter(
            "sendledger_look_ups",
            "Attempts whose fate this process asked of the provider, by what was found.",
            ["channel", "found"],
            registry=registry,
        )

    def answered(self, channel: str, answer: str, seconds: float) -> None:
        """Count a callback of *channel* that got its answer."""
        count, observe = self._answered[self._channel(channel), answer]
        count()
        observe(seconds)

    def refused(self, channel: str, reason: str) -> None:
        """Count a callback that was refused."""
        self._refusals.labels(self._channel(channel), self._reason(reason)).inc()

    def received(self, channel: str, fate: str) -> None:
        """Count a receipt that left the inbox."""
        self._receipts.labels(self._channel(channel), fate).inc()

    def looked_up(self, channel: str, found: str) -> None:
        """Count an attempt whose fate was asked."""
        self._looks.labels(self._channel(channel), found).inc()
