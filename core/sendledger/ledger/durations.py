"""Durations as people write them: ``30s``, ``8m``, ``1h30m``, ``2d``, ``500ms``."""

from __future__ import annotations

import re
from datetime import timedelta

UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
}
"""Units from the largest to the smallest, the order in which a duration is written."""

LONGEST = timedelta(days=3650)
"""Anything longer is a slip of the pen, and would soon leave the calendar."""

PATTERN = "^(?=[0-9])" + "".join(f"([0-9]{{1,6}}{unit})?" for unit in UNITS) + "$"
"""What :func:`parse_duration` accepts, as a regular expression that JSON Schema understands too."""

_WRITTEN = re.compile(PATTERN.replace("$", r"\Z"))


def parse_duration(text: str) -> timedelta:
    """Return the duration that *text* writes, such as ``1h30m``; units fall in size and never repeat.

    Raises ``ValueError``, which never quotes *text*. A bare number is refused: seconds and minutes
    are too easily mistaken for each other.
    """
    written = _WRITTEN.match(text)
    if written is None:
        raise ValueError("expected a duration such as 30s, 8m, 1h30m or 2d")
    pairs = zip(written.groups(), UNITS.items(), strict=True)
    sizes = (int(part.removesuffix(unit)) * size for part, (unit, size) in pairs if part)
    duration = sum(sizes, start=timedelta(0))
    if duration > LONGEST:
        raise ValueError("expected a duration of at most ten years")
    return duration


def format_duration(duration: timedelta) -> str:
    """Return the shortest text that :func:`parse_duration` reads as *duration*.

    Raises ``ValueError`` for a negative duration.
    """
    if duration < timedelta(0):
        raise ValueError("a duration is never negative")
    written = []
    for unit, size in UNITS.items():
        count, duration = divmod(duration, size)
        if count:
            written.append(f"{count}{unit}")
    return "".join(written) or "0s"
