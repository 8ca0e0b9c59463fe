"""How long a refusal asks us to wait, where its text says so in one of the usual ways."""

from __future__ import annotations

import re
from datetime import timedelta

LONGEST = timedelta(hours=4)
"""More than this is not believed at once: asking again every four hours hurts nobody, and quotas are raised."""

_READ_MAX_BYTES = 4096
_CODES = re.compile(r"^\d{3}[ -](?:\d\.\d{1,3}\.\d{1,3} )?", re.MULTILINE)

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_NUMBER = r"(?:\d{1,6}|an?\b|one\b)"
_UNIT = r"(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)\b"
_AMOUNT = re.compile(rf"({_NUMBER})\s*({_UNIT})", re.IGNORECASE)
_LENGTH = rf"(?P<amounts>{_NUMBER}\s*{_UNIT}(?:[\s,]+(?:and\s+)?\d{{1,6}}\s*{_UNIT}){{0,3}})"
# milter-greylist: "please come back in 00:05:00"
_CLOCK = r"(?P<clock>\d{1,3}:\d\d:\d\d)(?![\d:])"
# As the header of HTTP: seconds, without a unit.
_BARE = r"(?<=after)[\s:=]{1,3}(?P<bare>\d{1,6})(?![\w:.-])"

# postgrey: "Greylisted for 300 seconds"; sqlgrey: "Greylisted for 5 minutes". Few words may stand between.
_REQUEST = r"\b(?:try|retry|again|wait|back|gr[ae]y-?list(?:ed|ing)|deferred|delayed|delay|after)\b"
_BETWEEN = (
    r"(?:[\s:,;=-]|\b(?:again|later|back|after|in|for|at\s+least|about|another|please|of|is)\b)"
)
_STATED = re.compile(
    rf"{_REQUEST}(?:{_BARE}|{_BETWEEN}{{1,16}}(?:{_CLOCK}|{_LENGTH}))", re.IGNORECASE
)


def stated_wait(literal: bytes) -> timedelta | None:
    """Return the wait that the reply *literal* asks for, four hours at most; None when it names none."""
    text = _CODES.sub("", literal[:_READ_MAX_BYTES].decode("latin-1").replace("\r\n", "\n"))
    found = _STATED.search(text.replace("\n", " "))
    if found is None:
        return None
    seconds = _seconds(found["amounts"], found["clock"], found["bare"])
    return min(timedelta(seconds=seconds), LONGEST) if seconds else None


def _seconds(amounts: str | None, clock: str | None, bare: str | None) -> int:
    if bare:
        return int(bare)
    if clock:
        hours, minutes, seconds = map(int, clock.split(":"))
        return hours * 3600 + minutes * 60 + seconds
    return sum(
        _SECONDS[unit[0].lower()] * (int(number) if number.isdigit() else 1)
        for number, unit in _AMOUNT.findall(amounts or "")
    )
