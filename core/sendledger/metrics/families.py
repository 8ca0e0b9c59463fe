"""From what was read to what is shown. Pure; every configured channel has every series, zero or not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import product

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric

from sendledger.metrics.labels import AWAITS, STATUSES, TASK_KINDS, Closed
from sendledger.metrics.readings import Counted, Watched
from sendledger.store.watching import Overdue

Series = Mapping[tuple[str, ...], float]


def watched_families(seen: Watched, channels: Closed) -> Iterator[Metric]:
    """Show what the cheap readings said."""
    oldest = _oldest(seen.overdue, channels)
    yield _gauge(
        "sendledger_oldest_overdue_seconds",
        "Age of the oldest row that is overdue beyond the policy's grace; 0 when there is none.",
        ("channel", "awaits"),
        _zeros(channels.words, AWAITS)
        | {pair: row.overdue.total_seconds() for pair, row in oldest.items()},
    )
    yield _naming(oldest)
    yield _closed_scopes(
        "sendledger_channel_paused",
        "1 while a channel is paused: a person or a changed configuration must open it.",
        seen.paused,
        channels,
    )
    yield _closed_scopes(
        "sendledger_channel_backing_off",
        "1 while an outage has closed a channel: a probe opens it.",
        seen.backing_off,
        channels,
    )
    yield _gauge(
        "sendledger_tasks_open",
        "Operator tasks that a person has not closed.",
        ("kind",),
        _zeros(TASK_KINDS)
        | _summed(((Closed(TASK_KINDS)(kind),), rows) for kind, rows in seen.tasks.items()),
    )
    yield from _backlog_families(seen)


def counted_families(seen: Counted, channels: Closed) -> Iterator[Metric]:
    """Show what the last count of the whole table said."""
    status = Closed(STATUSES)
    rows = (((channels(row.channel), status(row.status)), row.rows) for row in seen.deliveries)
    yield _gauge(
        "sendledger_deliveries",
        "Deliveries by status, as of the last count of the whole table.",
        ("channel", "status"),
        _zeros(channels.words, STATUSES) | _summed(rows),
    )


def age_families(*, watched_s: float, counted_s: float) -> Iterator[Metric]:
    """Show how old the readings are; before the first one, how long there has been none."""
    yield _gauge(
        "sendledger_watch_age_seconds",
        "How long ago overdue rows, pauses, tasks, inbox and snapshots were last read.",
        (),
        {(): watched_s},
    )
    yield _gauge(
        "sendledger_counts_age_seconds",
        "How long ago deliveries were last counted.",
        (),
        {(): counted_s},
    )


def _oldest(rows: Iterable[Overdue], channels: Closed) -> dict[tuple[str, ...], Overdue]:
    """Return one row for each pair of labels, although several channels may share one name."""
    awaits = Closed(AWAITS)
    found: dict[tuple[str, ...], Overdue] = {}
    for row in rows:
        pair = (channels(row.channel), awaits(row.awaits))
        if pair not in found or found[pair].overdue < row.overdue:
            found[pair] = row
    return found


def _naming(oldest: Mapping[tuple[str, ...], Overdue]) -> Metric:
    family = InfoMetricFamily(
        "sendledger_oldest_overdue",
        "Which row is overdue for longest, and the fingerprint of its destination.",
        labels=("channel", "awaits"),
    )
    for pair, row in oldest.items():
        # Digests of ours: nobody else's text, and at most one to a channel and awaited event.
        key, fingerprint = row.intent_key.hex(), row.destination_fingerprint.hex()
        family.add_metric(pair, {"intent_key": key, "destination_fingerprint": fingerprint})
    return family


def _closed_scopes(name: str, text: str, closed: Collection[str], channels: Closed) -> Metric:
    shut: dict[tuple[str, ...], float] = {
        (channel,): float("all" in closed or f"channel:{channel}" in closed)
        for channel in channels.words
    }
    return _gauge(name, text, ("channel",), shut)


def _backlog_families(seen: Watched) -> Iterator[Metric]:
    backlog = seen.backlog
    yield _gauge(
        "sendledger_inbox_age_seconds",
        "Age of the oldest receipt that is not folded into the ledger yet.",
        (),
        {(): _seconds(backlog.inbox)},
    )
    yield _gauge(
        "sendledger_xmin_age_seconds",
        "Age of the oldest transaction that keeps the database from removing dead rows.",
        (),
        {(): _seconds(backlog.xmin_held)},
    )
    yield _gauge(
        "sendledger_xmin_age_transactions",
        "Transactions begun since the oldest snapshot that keeps dead rows from being removed.",
        (),
        {(): float(backlog.xmin_transactions or 0)},
    )


def _seconds(span: timedelta | None) -> float:
    return 0.0 if span is None else max(span.total_seconds(), 0.0)


def _zeros(*sets: Iterable[str]) -> dict[tuple[str, ...], float]:
    return dict.fromkeys(product(*sets), 0.0)


def _summed(rows: Iterable[tuple[tuple[str, ...], int]]) -> dict[tuple[str, ...], float]:
    total: dict[tuple[str, ...], float] = defaultdict(float)
    for pair, count in rows:
        total[pair] += count
    return dict(total)


def _gauge(name: str, text: str, labels: tuple[str, ...], series: Series) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for pair, value in series.items():
        family.add_metric(pair, value)
    return family
