"""How instants, durations and counts are shown to people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def instant(at: datetime | None) -> str:
    """Return *at* in UTC to the second, or a dash."""
    return "-" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") + "Z"


def iso(at: datetime | None) -> str | None:
    """Return *at* in UTC as ISO 8601, for JSON."""
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def away(at: datetime, now: datetime) -> str:
    """Return how far *at* is from *now*, such as ``in 2 min`` or ``3 h ago``."""
    seconds = (at - now).total_seconds()
    size = _size(timedelta(seconds=abs(seconds)))
    return f"in {size}" if seconds >= 0 else f"{size} ago"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return *count* with its noun, such as ``1 row`` or ``2 rows``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def _size(span: timedelta) -> str:
    seconds = span.total_seconds()
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 1.95 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
