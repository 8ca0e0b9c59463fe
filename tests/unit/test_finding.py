"""Which attempts are asked about, what of an answer is theirs, and when it is asked again: pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from fixed_policy import POLICY
from fold_rows import T0
from sendledger.journal.advance import Standing, standing_of
from sendledger.journal.folding import wake_at
from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.policy import LookUps
from sendledger.ledger.rows import Attempt, Delivery, Observation
from sendledger.ledger.words import Awaits, Outcome, Source, Status
from sendledger.plugin.receipts import Found, Receipt
from sendledger.store.ledger_rows import Locked
from sendledger.work.finding import (
    Answered,
    Waiting,
    attempts_to_ask,
    contested,
    next_look,
    only_free,
)

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


def test_a_provider_that_did_not_answer_is_asked_again_as_an_outage_is_probed() -> None:
    row = replace(waiting(Status.SUBMITTED, 2 * HOUR), failed=True)
    at = next_look(row, ASKING, now=T0 + 6 * HOUR, chance=0.0)
    assert at == T0 + 6 * HOUR + POLICY.probe_max


# --- whose it is -----------------------------------------------------------------------------


def answer(intent_id: int, *references: str, known: str | None = None, seq: int = 2) -> Answered:
    evidence = [
        Evidence(stage="look-up", handed_over=True, answered=True, provider_reference=reference)
        for reference in references
    ]
    receipts = tuple(Receipt(identity="sent", evidence=one) for one in evidence)
    found = Found(receipts=receipts)
    return Answered(intent_id=intent_id, number=1, seq=seq, found=found, known=known)


@pytest.mark.parametrize(
    ("owners", "left"),
    [
        ({}, {"a", "b"}),
        ({"a": {(1, 1)}}, {"a", "b"}),
        ({"a": {(2, 1)}}, {"b"}),
        ({"a": {(1, 2)}}, {"b"}),
        ({"a": {(1, 1), (2, 1)}}, {"a", "b"}),
    ],
    ids=["nobody", "itself", "another-intent", "another-attempt", "both-were-told"],
)
def test_what_another_attempt_owns_is_left_out(
    owners: dict[str, set[tuple[int, int]]], left: set[str]
) -> None:
    [free] = only_free([answer(1, "a", "b")], owners)
    assert free.references == left


def test_what_two_attempts_guess_is_of_neither() -> None:
    found = contested([answer(1, "a"), answer(2, "a"), answer(3, "b")], frozenset())
    assert [one.word for one in found] == ["several", "several", "one"]


def test_what_one_is_known_by_is_no_second_claim_to_what_another_guesses() -> None:
    found = contested([answer(1, "a", known="a"), answer(2, "a", "b")], frozenset())
    assert [one.word for one in only_free(found, {"a": {(1, 1)}})] == ["one", "one"]


def test_a_guess_at_an_attempt_with_a_rival_is_not_believed_and_a_reference_is() -> None:
    found = contested([answer(1, "a"), answer(2, "b", known="b")], {(1, 1), (2, 1)})
    assert [one.word for one in found] == ["several", "one"]


@pytest.mark.parametrize(
    ("known", "reference", "seq", "counts"),
    [
        (None, "a", 2, True),
        (None, "a", 1, False),
        ("a", "a", 1, True),
        ("b", "a", 1, False),
    ],
    ids=["as-asked", "told-since", "known", "not-what-was-asked-for"],
)
def test_a_guess_counts_only_while_nothing_else_was_told_of_its_attempt(
    known: str | None, reference: str, seq: int, *, counts: bool
) -> None:
    one = answer(1, reference, known=known, seq=seq)
    meaning = Classification(rule="test.sent", outcome=Outcome.ACCEPTED)
    entry = one.entry(lambda _: meaning, chance=0.0)
    assert bool(entry.propose(standing(Outcome.AMBIGUOUS, now=T0))) == counts
