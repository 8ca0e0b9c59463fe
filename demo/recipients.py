"""The demo's 240 pupils, and what the next hops do with each: written into the address and the number."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

PUPILS = 240

DEAD = 17
LOST = 60
GREYLISTED = range(30, 38)

OPTED_OUT = 5
LOST_SMS = 10
ONLY_LOOKED_UP = 11
NUMBERS: Mapping[range, int] = {
    range(OPTED_OUT, 6): 52,
    range(6, 7): 62,
    range(7, 9): 70,
    range(9, 10): 74,
    range(LOST_SMS, 11): 76,
    range(ONLY_LOOKED_UP, 12): 90,
    range(41, 42): 86,
    range(42, 43): 87,
    range(70, 80): 80,
    range(80, 90): 81,
    range(90, 96): 83,
    range(100, 110): 84,
}
"""The last two digits of some pupils' numbers, which ask the stand-in of Twilio for an outcome.

52 opted out; 62 a landline after all; 70 told to come back; 74 accepted, and the answer says 500; 76 and 90
the answer is lost, and of 90 the callbacks, too; 86 forged callbacks; 87 delivered, then failed. 80 to 84:
callbacks twice, in reverse, none at all, before the answer.
"""

AREAS = (202, 212, 303, 312, 404, 415, 505, 512, 606, 617)


def write_recipients(file: Path) -> None:
    """Write 240 pupils as CSV, a guardian's address and number for each."""
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(
            [
                "student_id",
                "guardian_email",
                "guardian_phone",
                "first_name",
                "school_year",
                "average",
            ]
        )
        for n in range(1, PUPILS + 1):
            average = f"{1 + n % 40 / 10:.1f}"
            writer.writerow([f"S{n:04}", address(n), number(n), f"Pupil{n}", "2025/26", average])


def address(n: int) -> str:
    """Return the guardian's address of pupil *n*, with the relay's behaviour in it."""
    outcome = ""
    if n == DEAD:
        outcome = "+rcpt-550-5.1.1"
    elif n == LOST:
        outcome = "+lose-answer"
    elif n in GREYLISTED:
        outcome = "+greylist-1"
    return f"guardian{n:03}{outcome}@example.test"


def number(n: int) -> str:
    """Return the guardian's number of pupil *n*; no two have the same."""
    line = next((line for some, line in NUMBERS.items() if n in some), n // len(AREAS))
    return f"+1{AREAS[n % len(AREAS)]}55501{line:02}"
