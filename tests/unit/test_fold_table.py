"""Every move of the fold, by the number of its row in the table of moves.

A row tells what stands, what comes, and where that leaves the delivery. Side effects and the queue
are proved where they are written; a receipt for an attempt that does not exist never reaches the fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

import pytest

from fold_rows import (
    IMPORTED,
    NATIVE,
    SHADOW,
    T0,
    accepted,
    ask,
    at,
    claimed_by_operator,
    close,
    delivered,
    hold,
    lost,
    note,
    numbered,
    opened,
    refused,
    release,
    retry,
    ruled,
    unknown,
    wait,
)
from sendledger.ledger.fold import barred, fold, rank_of, ranks, unchanged
from sendledger.ledger.rows import Delivery, Origin, Row
from sendledger.ledger.words import Awaits, Outcome, Ruling, Scope, Status

P, S, A, U = Status.PLANNED, Status.SUBMITTING, Status.AMBIGUOUS, Status.SUBMITTED
D, OK, F, X = Status.DEFERRED, Status.DELIVERED, Status.FAILED, Status.SUPPRESSED

PLANNED: list[Row] = []
SUBMITTING: list[Row] = [opened(1)]
UNKNOWN: list[Row] = [opened(1), unknown(1)]
ASKED: list[Row] = [*UNKNOWN, ask(1, at(120))]
TRYING_AGAIN: list[Row] = [*UNKNOWN, retry(2, at(130))]
SUBMITTED: list[Row] = [opened(1), accepted(1)]
SETTLED: list[Row] = [*SUBMITTED, close(1)]
REFUSED: list[Row] = [opened(1), refused(1)]
DEFERRED: list[Row] = [*REFUSED, retry(2, at(15))]
HELD: list[Row] = [*REFUSED, hold(at(12))]
SECOND_OPEN: list[Row] = [*TRYING_AGAIN, opened(2)]
DELIVERED: list[Row] = [opened(1), delivered(1)]
FAILED: list[Row] = [opened(1), refused(1, final=True)]
SUPPRESSED: list[Row] = [ruled(Ruling.SUPPRESS)]

UNFINISHED: dict[str, list[Row]] = {
    "planned": PLANNED,
    "submitting": SUBMITTING,
    "ambiguous": UNKNOWN,
    "asked": ASKED,
    "ambiguous-retry": TRYING_AGAIN,
    "submitted": SUBMITTED,
    "settled": SETTLED,
    "deferred": DEFERRED,
    "held": HELD,
    "second-open": SECOND_OPEN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One row of the table."""

    row: str
    now: Sequence[Row]
    comes: Sequence[Row]
    status: Status
    awaits: Awaits | None = None
    due: datetime | None = None
    spent: int | None = None
    origin: Origin = NATIVE


def move(  # noqa: PLR0917 - a line of a table is read by position
    row: str,
    now: Sequence[Row],
    comes: Sequence[Row],
    status: Status,
    awaits: Awaits | None = None,
    due: datetime | None = None,
    *,
    spent: int | None = None,
    origin: Origin = NATIVE,
) -> Move:
    return Move(
        row=row,
        now=now,
        comes=comes,
        status=status,
        awaits=awaits,
        due=due,
        spent=spent,
        origin=origin,
    )


DISPATCH, RESULT, EVIDENCE = Awaits.DISPATCH, Awaits.RESULT, Awaits.EVIDENCE
DECISION, RETRY, RELEASE = Awaits.DECISION, Awaits.RETRY, Awaits.RELEASE
OURS = refused(1, scope=Scope.CHANNEL)
FAULT = refused(1, final=True, scope=Scope.SENDER)

MOVES = [
    move("01", PLANNED, [], P, DISPATCH, T0),
    move("02-planned", PLANNED, [wait(at(9))], P, DISPATCH, at(9)),
    move("02-deferred", DEFERRED, [wait(at(20))], D, RETRY, at(20)),
    move("02-deferred-wait-shorter-than-retry", DEFERRED, [wait(at(14))], D, RETRY, at(15)),
    move("02-ambiguous", TRYING_AGAIN, [wait(at(140))], A, RETRY, at(140)),
    move("03-planned", PLANNED, [hold(at(5))], P, RELEASE, at(5)),
    move("03-deferred", DEFERRED, [hold(at(15))], D, RELEASE, at(15)),
    move("03-ambiguous", TRYING_AGAIN, [hold(at(131))], A, RELEASE, at(131)),
    move("04-planned", [hold(at(5))], [release(at(8))], P, DISPATCH, at(8)),
    move("04-deferred", HELD, [release(at(18), authorises=2)], D, RETRY, at(18)),
    move("04-ambiguous", [*TRYING_AGAIN, hold(at(131))], [release(at(140))], A, RETRY, at(140)),
    move("04-not-held", PLANNED, [release(at(8))], P, DISPATCH, T0),
    move("05-planned", PLANNED, [ruled(Ruling.SUPPRESS)], X),
    move("05-deferred", DEFERRED, [ruled(Ruling.SUPPRESS)], X),
    *(
        move(f"06-{name}-{ruling}", now, [ruled(ruling)], F)
        for name, now in {"planned": PLANNED, "deferred": DEFERRED}.items()
        for ruling in (Ruling.EXPIRE, Ruling.FAULT, Ruling.EXHAUST, Ruling.STOP, Ruling.ERASE)
    ),
    move("07-planned", PLANNED, [opened(1)], S, RESULT, at(11)),
    move("07-deferred", DEFERRED, [opened(2)], S, RESULT, at(21)),
    move("07-ambiguous", TRYING_AGAIN, [opened(2)], S, RESULT, at(21)),
    move("07-an-older-wait-is-over", [wait(at(40)), opened(1)], [refused(1), retry(2, at(15))],
         D, RETRY, at(15)),
    move("07-an-older-hold-is-over", [hold(at(4)), opened(1)], [refused(1), retry(2, at(15))],
         D, RETRY, at(15)),
    move("08", SUBMITTING, [accepted(1)], U, EVIDENCE, at(1010)),
    move("09", SUBMITTING, [refused(1), retry(2, at(15))], D, RETRY, at(15), spent=1),
    move("10", SUBMITTING, [refused(1), ruled(Ruling.EXHAUST)], F, spent=1),
    move("11", SUBMITTING, [OURS, retry(2, at(15))], D, RETRY, at(15), spent=0),
    move("12", SUBMITTING, [FAULT, hold(at(12))], D, RELEASE, at(12), spent=0),
    move("13", SUBMITTING, [refused(1, final=True)], F),
    move("13-message", SUBMITTING, [refused(1, final=True, scope=Scope.MESSAGE)], F),
    move("14", SUBMITTING, [refused(1, final=True, opt_out=True)], X),
    move("14-only-for-good", SUBMITTING, [refused(1, opt_out=True), refused(1, final=True)], F),
    move("15", SUBMITTING, [unknown(1)], A, EVIDENCE, at(110)),
    move("16", SUBMITTING, [lost(1)], A, EVIDENCE, at(110)),
    move("17-accepted", [*SUBMITTING, accepted(1)], [accepted(1)], U, EVIDENCE, at(1010)),
    move("17-then-unknown", [*SUBMITTING, accepted(1)], [unknown(1)], U, EVIDENCE, at(1010)),
    move("17-delivered", [*SUBMITTING, delivered(1)], [accepted(1)], OK),
    move("17-refused", [*SUBMITTING, refused(1, final=True, later=True)], [accepted(1)], F),
    move("18-suppress", SUBMITTING, [ruled(Ruling.SUPPRESS)], S, RESULT, at(11)),
    move("18-stop", SUBMITTING, [ruled(Ruling.STOP)], S, RESULT, at(11)),
    move("18-suppress-refused", [*SUBMITTING, ruled(Ruling.SUPPRESS)], [refused(1)], X),
    move("18-expire-refused", [*SUBMITTING, ruled(Ruling.EXPIRE)], [refused(1)], F),
    move("18-first-bar-counts", [*SUBMITTING, ruled(Ruling.SUPPRESS)], [ruled(Ruling.STOP)],
         S, RESULT, at(11)),
    move("18-first-bar-counts-refused",
         [*SUBMITTING, ruled(Ruling.SUPPRESS), ruled(Ruling.STOP)], [refused(1)], X),
    move("18-expire-accepted", [*SUBMITTING, ruled(Ruling.EXPIRE)], [accepted(1)],
         U, EVIDENCE, at(1010)),
    move("19", SECOND_OPEN, [refused(2)], A, EVIDENCE, at(110)),
    move("19-permanent", SECOND_OPEN, [refused(2, final=True)], A, EVIDENCE, at(110)),
    move("19-asked", [*ASKED, retry(2, at(130)), opened(2)], [refused(2)], A, DECISION, at(120)),
    move("20", [*SECOND_OPEN, accepted(1)], [refused(2)], U, EVIDENCE, at(1010)),
    *(move(f"21-{name}", now, [delivered(1)], OK) for name, now in UNFINISHED.items() if now),
    move("22-ambiguous", UNKNOWN, [accepted(1)], U, EVIDENCE, at(1010)),
    move("22-asked", ASKED, [accepted(1)], U, EVIDENCE, at(1010)),
    move("22-deferred", [*TRYING_AGAIN, opened(2), refused(2), retry(3, at(30))], [accepted(1)],
         U, EVIDENCE, at(1010)),
    move("22-retry-void", TRYING_AGAIN, [accepted(1)], U, EVIDENCE, at(1010)),
    move("22-operator", ASKED, [claimed_by_operator(1)], U, EVIDENCE, at(1010)),
    move("22-operator-overrules-nothing", DEFERRED, [claimed_by_operator(1)], D, RETRY, at(15)),
    move("23", SUBMITTED, [accepted(1, until=at(1500))], U, EVIDENCE, at(1500)),
    move("23-only-extends", SUBMITTED, [accepted(1, until=at(900))], U, EVIDENCE, at(1010)),
    move("24-submitted", SUBMITTED, [note(1)], U, EVIDENCE, at(1010)),
    move("24-ambiguous", UNKNOWN, [note(1)], A, EVIDENCE, at(110)),
    move("24-deferred", DEFERRED, [note(1)], D, RETRY, at(15)),
    move("25", UNKNOWN, [unknown(1)], A, EVIDENCE, at(110)),
    move("26", UNKNOWN, [ask(1, at(120))], A, DECISION, at(120)),
    move("26-evidence-settles", ASKED, [delivered(1)], OK),
    move("27-transient", UNKNOWN, [refused(1), retry(2, at(115))], D, RETRY, at(115)),
    move("27-permanent", ASKED, [refused(1, final=True)], F),
    move("27-retrying", TRYING_AGAIN, [refused(1, final=True)], F),
    move("28-evidence", UNKNOWN, [retry(2, at(130))], A, RETRY, at(130)),
    move("28-decision", ASKED, [retry(2, at(130))], A, RETRY, at(130)),
    move("28-another-number", UNKNOWN, [retry(3, at(130))], A, EVIDENCE, at(110)),
    move("29-suppress", TRYING_AGAIN, [ruled(Ruling.SUPPRESS)], A, EVIDENCE, at(110)),
    move("29-expire-asked", [*ASKED, retry(2, at(130))], [ruled(Ruling.EXPIRE)],
         A, DECISION, at(120)),
    move("29-release", [*TRYING_AGAIN, hold(at(131))], [ruled(Ruling.EXPIRE)],
         A, EVIDENCE, at(110)),
    move("30", SUBMITTED, [refused(1, later=True), retry(2, at(60))], D, RETRY, at(60), spent=1),
    move("30-settled", SETTLED, [refused(1, later=True), ask(1, at(60))], D, DECISION, at(60)),
    move("30-undecided", SUBMITTED, [refused(1, later=True)], D, DECISION, T0),
    move("31", SUBMITTED, [refused(1, final=True, later=True, scope=Scope.SENDER), hold(at(60))],
         D, RELEASE, at(60), spent=0),
    move("31-settled", SETTLED, [refused(1, final=True, later=True, scope=Scope.SENDER),
         hold(at(60))], D, RELEASE, at(60), spent=0),
    *(
        move(f"32-{name}", UNFINISHED[name], [refused(1, final=True, later=True)], F)
        for name in ("submitted", "settled", "ambiguous", "asked", "deferred", "held")
    ),
    move("33-open", SECOND_OPEN, [refused(1, final=True, later=True)], S, RESULT, at(21)),
    move("33-accepted", [*SECOND_OPEN, accepted(2)], [refused(1, final=True, later=True)],
         U, EVIDENCE, at(1020)),
    move("33-unknown", [*SECOND_OPEN, unknown(2)], [refused(1, final=True, later=True)],
         A, EVIDENCE, at(120)),
    move("33-counts-once-the-others-are-refused",
         [*SECOND_OPEN, unknown(2), refused(1, final=True, later=True)], [refused(2)], F),
    move("34", [*SUBMITTED, *[note(1)] * 9], [], U, EVIDENCE, at(1010)),
    move("35", SUBMITTED, [close(1)], U),
    move("35-one-of-two", [*SECOND_OPEN, accepted(1), accepted(2)], [close(1)],
         U, EVIDENCE, at(1020)),
    move("36-submitted-stop", SUBMITTED, [ruled(Ruling.STOP)], U),
    move("36-submitted-erase", SUBMITTED, [ruled(Ruling.ERASE)], U),
    move("36-ambiguous-stop", ASKED, [ruled(Ruling.STOP)], A),
    move("36-evidence-still-folds", [*SUBMITTED, ruled(Ruling.STOP)], [delivered(1)], OK),
    move("36-refused-after-stop", [*SUBMITTED, ruled(Ruling.STOP)], [refused(1, later=True)], F),
    move("39-shadow", PLANNED, [], P, origin=SHADOW),
    move("39-no-result", PLANNED, [unknown(0)], A, origin=IMPORTED, spent=0),
    move("39-accepted", PLANNED, [accepted(0)], U, origin=IMPORTED, spent=0),
    move("39-refused", PLANNED, [refused(0)], D, origin=SHADOW, spent=0),
    move("39-failed", PLANNED, [refused(0, final=True)], F, origin=SHADOW),
    move("39-delivered", [accepted(0)], [delivered(0)], OK, origin=SHADOW),
]  # fmt: skip


@pytest.mark.parametrize("case", MOVES, ids=lambda case: f"row-{case.row}")
def test_the_fold_moves_as_its_table_says(case: Move) -> None:
    delivery = fold(case.origin, numbered([*case.now, *case.comes]))
    assert (delivery.status, delivery.awaits, delivery.due_at) == (
        case.status,
        case.awaits,
        case.due,
    )
    assert case.spent in (None, delivery.spent)
    assert not delivery.contradicted


ENDED: dict[str, tuple[list[Row], Row, Status]] = {
    "row-37-delivered-then-refused": (DELIVERED, refused(1, final=True, later=True), OK),
    "row-37-another-attempt": ([*SECOND_OPEN, delivered(2)], refused(1, final=True), OK),
    "row-38-failed-then-delivered": (FAILED, delivered(1), F),
    "row-38-stopped-then-delivered": ([*REFUSED, ruled(Ruling.STOP)], delivered(1), F),
    "row-38-suppressed-then-delivered": ([*DEFERRED, ruled(Ruling.SUPPRESS)], delivered(1), X),
}


@pytest.mark.parametrize("name", ENDED)
def test_evidence_against_a_terminal_only_marks_it_contradicted(name: str) -> None:
    history, contrary, status = ENDED[name]
    before = fold(NATIVE, numbered(history))
    after = fold(NATIVE, numbered([*history, contrary]))
    assert (before.status, before.contradicted) == (status, False)
    assert (after.status, after.contradicted, after.awaits) == (status, True, None)


@pytest.mark.parametrize("name", UNFINISHED)
def test_a_bar_after_the_end_does_not_change_the_end(name: str) -> None:
    history = [*UNFINISHED[name], delivered(1)]
    stopped = fold(NATIVE, numbered([*history, ruled(Ruling.STOP)]))
    assert unchanged(fold(NATIVE, numbered(history)), stopped)


def test_an_attempt_makes_the_decision_behind_it_void() -> None:
    pending = fold(NATIVE, numbered(DEFERRED))
    assert pending.decision_seq == 3
    assert fold(NATIVE, numbered([*DEFERRED, opened(2)])).decision_seq is None


def test_a_release_of_a_refused_row_is_the_decision_for_the_next_attempt() -> None:
    released = fold(NATIVE, numbered([*HELD, release(at(18), authorises=2)]))
    assert released.decision_seq == 4


def test_a_release_never_brings_a_retry_forward() -> None:
    released = fold(NATIVE, numbered([*DEFERRED, hold(at(12)), release(at(13), authorises=2)]))
    assert (released.awaits, released.due_at) == (RETRY, at(15))


def test_settled_means_unfinished_and_awaiting_nothing() -> None:
    def settled(rows: Sequence[Row]) -> bool:
        return fold(NATIVE, numbered(rows)).settled

    assert settled(SETTLED)
    assert not settled(SUBMITTED)
    assert not settled(DELIVERED)


def test_ranks_tell_how_much_is_known_of_each_attempt() -> None:
    found = ranks(NATIVE, numbered([*SECOND_OPEN, accepted(2)]))
    assert {number: rank.name for number, rank in found.items()} == {1: "UNKNOWN", 2: "ACCEPTED"}


@pytest.mark.parametrize(
    ("now", "later"),
    [
        (refused(1), refused(1, final=True)),
        (refused(1, final=True), accepted(1)),
        (accepted(1), refused(1, later=True)),
        (refused(1, later=True), refused(1, later=True, final=True)),
        (refused(1, later=True, final=True), delivered(1)),
        (unknown(1), refused(1)),
    ],
)
def test_what_is_known_of_an_attempt_only_grows(now: Row, later: Row) -> None:
    first = ranks(NATIVE, numbered([opened(1), now]))[1]
    both = ranks(NATIVE, numbered([opened(1), now, later]))[1]
    reversed_order = ranks(NATIVE, numbered([opened(1), later, now]))[1]
    assert first < both == reversed_order


def test_unchanged_looks_past_how_many_rows_were_read() -> None:
    before, after = fold(NATIVE, numbered(SUBMITTED)), fold(NATIVE, numbered([*SUBMITTED, note(1)]))
    assert unchanged(before, after)
    assert not unchanged(before, fold(NATIVE, numbered(SETTLED)))
    assert isinstance(before, Delivery)


def test_a_word_that_this_version_does_not_know_lifts_no_attempt() -> None:
    rumoured = replace(accepted(1), outcome=cast("Outcome", "rumoured"))
    assert rank_of(rumoured) is None


def test_barred_tells_whether_another_attempt_is_forbidden() -> None:
    assert not barred(NATIVE, numbered(TRYING_AGAIN))
    assert barred(NATIVE, numbered([*TRYING_AGAIN, ruled(Ruling.EXPIRE)]))
