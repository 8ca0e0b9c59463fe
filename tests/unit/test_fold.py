"""The fold on random histories: it agrees with a second opinion and keeps its promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

import fold_rows as rows_of
from fold_oracle import Opinion, contradictory, opinion
from fold_rows import IMPORTED, NATIVE, SHADOW, at, numbered
from sendledger.ledger.fold import fold, unchanged
from sendledger.ledger.rows import Attempt, Delivery, Observation, Origin, Row
from sendledger.ledger.words import Ruling, Scope, Status

ATTEMPTS_MAX = 3
EVIDENCE_MAX = 7
ROWS_BETWEEN_MAX = 4

instants = st.integers(0, 3000).map(at)
origins = st.sampled_from([NATIVE, NATIVE, NATIVE, SHADOW, IMPORTED])


def evidence_about(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Observation]:
    """Draw anything a channel, a receipt or a person may say of one attempt."""
    scopes = st.sampled_from(Scope)
    return st.one_of(
        st.builds(rows_of.accepted, numbers, until=st.none() | instants),
        st.builds(rows_of.unknown, numbers),
        st.builds(rows_of.delivered, numbers),
        st.builds(
            rows_of.refused,
            numbers,
            final=st.booleans(),
            later=st.booleans(),
            scope=scopes,
            opt_out=st.booleans(),
        ),
    )


def decisions_about(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Observation]:
    """Draw anything a policy or a person may decide, sensible or not."""
    bars = [Ruling.SUPPRESS, Ruling.EXPIRE, Ruling.EXHAUST, Ruling.FAULT, Ruling.STOP, Ruling.ERASE]
    return st.one_of(
        st.builds(rows_of.retry, numbers.map(lambda k: k + 1), instants),
        st.builds(rows_of.wait, instants),
        st.builds(rows_of.hold, instants),
        st.builds(rows_of.release, instants),
        st.builds(rows_of.ask, numbers, instants),
        st.builds(rows_of.close, numbers),
        st.builds(rows_of.claimed_by_operator, numbers),
        st.builds(rows_of.note, numbers),
        st.sampled_from(bars).map(rows_of.ruled),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Row]:
    """Draw up to three attempts, and evidence and decisions about those that are there between them."""
    rows: list[Row] = []
    for number in range(draw(st.integers(0, ATTEMPTS_MAX)) + 1):
        if number:
            rows.append(rows_of.opened(number))
        known = st.integers(1 if number else 0, number)
        said = evidence_about(known) if number else st.nothing()
        rows += draw(st.lists(said | decisions_about(known), max_size=ROWS_BETWEEN_MAX))
    return rows


@st.composite
def attempts_and_evidence(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """Draw attempts as decisions allow them, then evidence in no particular order."""
    count = draw(st.integers(1, ATTEMPTS_MAX))
    head: list[Row] = []
    for number in range(1, count + 1):
        head.append(rows_of.opened(number))
        if number < count:
            early = st.sampled_from(
                [
                    rows_of.unknown(number),
                    rows_of.refused(number),
                    rows_of.refused(number, later=True),
                ]
            )
            head += [draw(early), rows_of.retry(number + 1, at(10 * number + 5))]
    evidence = draw(st.lists(evidence_about(st.integers(1, count)), max_size=EVIDENCE_MAX))
    repeats = draw(st.lists(st.sampled_from(evidence), max_size=2)) if evidence else []
    return head, [*evidence, *repeats]


def of(origin: Origin, rows: Sequence[Row]) -> Delivery:
    return fold(origin, numbered(rows))


def seen(delivery: Delivery) -> tuple[object, ...]:
    """Return what the order of evidence must not change."""
    return tuple(getattr(delivery, field.name) for field in fields(Opinion))


@given(origins, histories())
@settings(max_examples=500, deadline=None)
def test_fold_agrees_with_the_second_opinion_on_every_prefix(
    origin: Origin, rows: list[Row]
) -> None:
    for length in range(len(rows) + 1):
        prefix = numbered(rows[:length])
        assert seen(fold(origin, prefix)) == astuple(opinion(origin, prefix))


@given(origins, histories())
@settings(max_examples=100, deadline=None)
def test_every_prefix_after_a_terminal_keeps_the_terminal(origin: Origin, rows: list[Row]) -> None:
    reached: Status | None = None
    for length in range(len(rows) + 1):
        delivery = of(origin, rows[:length])
        assert reached in (None, delivery.status)
        reached = delivery.status if delivery.status.terminal else None


@given(attempts_and_evidence())
@settings(max_examples=300, deadline=None)
def test_evidence_that_comes_again_changes_nothing(history: tuple[list[Row], list[Row]]) -> None:
    head, evidence = history
    once, twice = of(NATIVE, head + evidence), of(NATIVE, head + evidence + evidence)
    assert unchanged(once, twice)


@given(attempts_and_evidence(), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_evidence_without_contradiction_folds_the_same_in_any_order(
    history: tuple[list[Row], list[Row]], chance: Random
) -> None:
    head, evidence = history
    evidence = consistent(head, evidence)
    shuffled = evidence[:]
    chance.shuffle(shuffled)
    assert seen(of(NATIVE, head + shuffled)) == seen(of(NATIVE, head + evidence))


@given(attempts_and_evidence(), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_contradictory_evidence_is_marked_in_any_order(
    history: tuple[list[Row], list[Row]], chance: Random
) -> None:
    head, evidence = history
    evidence = [*evidence, rows_of.delivered(1), rows_of.refused(1, final=True, later=True)]
    shuffled = evidence[:]
    chance.shuffle(shuffled)
    one, other = of(NATIVE, head + evidence), of(NATIVE, head + shuffled)
    assert one.status.terminal
    assert other.status.terminal
    assert one.contradicted
    assert other.contradicted


def consistent(head: Sequence[Row], evidence: Sequence[Row]) -> list[Row]:
    """Return *evidence* without what contradicts the rest of it."""
    kept: list[Row] = []
    for row in evidence:
        if not contradictory([*head, *kept, row]):
            kept.append(row)
    return kept


@given(histories())
@settings(max_examples=100, deadline=None)
def test_because_names_the_last_row_that_moved_the_standing(rows: list[Row]) -> None:
    because, before = 0, of(NATIVE, [])
    for length in range(1, len(rows) + 1):
        after = of(NATIVE, rows[:length])
        moved = (after.status, after.awaits, after.due_at)
        if moved != (before.status, before.awaits, before.due_at):
            because = length
        assert after.because == because
        before = after


@given(histories())
@settings(max_examples=100, deadline=None)
def test_the_decision_behind_the_next_attempt_authorises_exactly_that_attempt(
    rows: list[Row],
) -> None:
    numbers = numbered(rows)
    delivery = fold(NATIVE, numbers)
    if delivery.decision_seq is not None:
        decision = numbers[delivery.decision_seq - 1]
        assert isinstance(decision, Observation)
        assert decision.authorises == delivery.attempt_count + 1


def test_seq_counts_every_row_even_those_that_move_nothing() -> None:
    rows = numbered([rows_of.opened(1), rows_of.accepted(1), rows_of.note(1)])
    assert fold(NATIVE, rows).seq == 3
    assert isinstance(rows[0], Attempt)
