"""Which attempts are asked about, when again, and when the queue wakes for it: pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from fixed_policy import POLICY
from fold_rows import T0
from sendledger.journal.advance import Standing, standing_of
from sendledger.journal.folding import wake_at
from sendledger.ledger.policy import LookUps
from sendledger.ledger.rows import Attempt, Delivery, Observation
from sendledger.ledger.words import Awaits, Outcome, Source, Status
from sendledger.store.ledger_rows import Locked
from sendledger.work.finding import Waiting, attempts_to_ask, next_look

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
LOOKS = LookUps(first=MINUTE, silence=30 * MINUTE, longest=4 * HOUR, per_minute=60)
ASKING = replace(POLICY, jitter=0.5, look_up=LOOKS)
ATTEMPT = Attempt(
    seq=1,
    number=1,
    result_due_at=T0 + MINUTE,
    unknown_due_at=T0 + HOUR,
    evidence_due_at=T0 + 2 * HOUR,
    window_ends_at=T0 + 8 * HOUR,
)


def standing(outcome: Outcome, *, now: datetime) -> Standing:
    locked: dict[str, Any] = dict.fromkeys(Locked.__slots__)
    locked |= {"eligible_at": T0, "provenance": "native", "now": now}
    said = Observation(seq=2, source=Source.CHANNEL, rule="test", attempt=1, outcome=outcome)
    return standing_of(Locked(**locked), [ATTEMPT, said])


@pytest.mark.parametrize(
    ("outcome", "hours", "looked", "asked"),
    [
        (Outcome.AMBIGUOUS, 0.5, None, [1]),
        (Outcome.AMBIGUOUS, 0.5, 0.4, [1]),
        (Outcome.AMBIGUOUS, 1.5, None, [1]),
        (Outcome.AMBIGUOUS, 1.5, 0.9, [1]),
        (Outcome.AMBIGUOUS, 1.5, 1.1, []),
        (Outcome.ACCEPTED, 3, None, [1]),
        (Outcome.ACCEPTED, 9, None, []),
        (Outcome.DELIVERED, 3, None, []),
    ],
)
def test_what_is_open_is_asked_about_and_the_unknown_once_more_when_its_wait_is_over(
    outcome: Outcome, hours: float, looked: float | None, asked: list[int]
) -> None:
    found = standing(outcome, now=T0 + hours * HOUR)
    looked_at = None if looked is None else T0 + looked * HOUR
    assert list(attempts_to_ask(found, looked_at)) == asked


def waiting(status: Status, due: timedelta) -> Waiting:
    delivery = Delivery(status=status, awaits=Awaits.EVIDENCE, due_at=T0 + due)
    return Waiting(delivery=delivery, attempts=[ATTEMPT], since=T0)


@pytest.mark.parametrize(
    ("status", "due", "now", "chance", "expected"),
    [
        (Status.AMBIGUOUS, 6, 0.1, 0.0, 0.2),
        (Status.AMBIGUOUS, 6, 0.1, 0.5, 0.225),
        (Status.AMBIGUOUS, 6, 4.0, 0.0, 6.0),
        (Status.AMBIGUOUS, 1, 2.0, 0.0, 4.0),
        (Status.SUBMITTED, 2, 2.1, 0.0, 2.2),
        (Status.SUBMITTED, 2, 6.0, 0.0, 8.0),
    ],
)
def test_the_next_look_comes_ever_later_and_not_after_the_end_of_the_wait(
    status: Status, due: float, now: float, chance: float, expected: float
) -> None:
    at = next_look(waiting(status, due * HOUR), ASKING, now=T0 + now * HOUR, chance=chance)
    assert abs(at - (T0 + expected * HOUR)) < timedelta(seconds=1)


@pytest.mark.parametrize(
    ("status", "due", "look_from", "expected"),
    [
        (Status.AMBIGUOUS, 1, None, 1),
        (Status.AMBIGUOUS, 1, 0.1, 0.1),
        (Status.AMBIGUOUS, 1, 3, 1),
        (Status.SUBMITTED, 2, None, 8),
        (Status.SUBMITTED, 2, 0.1, 2),
        (Status.SUBMITTED, 2, 3, 3),
        (Status.SUBMITTED, 2, 9, 8),
    ],
)
def test_the_queue_wakes_for_a_look_where_somebody_can_be_asked_and_else_when_the_wait_ends(
    status: Status, due: float, look_from: float | None, expected: float
) -> None:
    row = waiting(status, due * HOUR).delivery
    begins = None if look_from is None else T0 + look_from * HOUR
    assert wake_at(row, [ATTEMPT], begins) == T0 + expected * HOUR
