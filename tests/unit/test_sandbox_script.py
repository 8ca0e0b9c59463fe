"""The script language of the sandbox."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sendledger_sandbox.script import (
    Drop,
    Outcome,
    Phase,
    Refuse,
    ScriptFault,
    Stall,
    Turns,
    parse_outcome,
    parse_recipient,
)

GREYLISTED_TWICE = Refuse(
    phase=Phase.RCPT,
    code=451,
    enhanced="4.7.1",
    times=2,
    text="Greylisted, please try again later",
)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("rcpt-550-5.1.1", Refuse(phase=Phase.RCPT, code=550, enhanced="5.1.1")),
        ("rcpt-550", Refuse(phase=Phase.RCPT, code=550, enhanced=None)),
        ("data-451-4.3.0-once", Refuse(phase=Phase.DATA, code=451, enhanced="4.3.0", times=1)),
        ("dot-554-5.7.0", Refuse(phase=Phase.DOT, code=554, enhanced="5.7.0")),
        ("mail-550-4.7.1", Refuse(phase=Phase.MAIL, code=550, enhanced="4.7.1")),
        ("defer-3-452-4.2.2", Refuse(phase=Phase.RCPT, code=452, enhanced="4.2.2", times=3)),
        ("greylist-2", GREYLISTED_TWICE),
        ("GREYLIST-2", GREYLISTED_TWICE),
        ("drop-rcpt", Drop(phase=Phase.RCPT)),
        ("drop-body-once", Drop(phase=Phase.BODY, times=1)),
        ("drop-quit", Drop(phase=Phase.QUIT)),
        ("lose-answer", Drop(phase=Phase.ACCEPTED)),
        ("lose-answer-once", Drop(phase=Phase.ACCEPTED, times=1)),
        ("stall-2", Stall(phase=Phase.ACCEPTED, seconds=2.0)),
        ("stall-0.5-once", Stall(phase=Phase.ACCEPTED, seconds=0.5, times=1)),
        ("stall-dot-1.5", Stall(phase=Phase.DOT, seconds=1.5)),
    ],
)
def test_every_form_of_the_language_is_read(text: str, outcome: Outcome) -> None:
    assert parse_outcome(text) == outcome


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rcpt",
        "rcpt-250",
        "rcpt-550-5.1",
        "rcpt-550-9.1.1",
        "body-550",
        "drop",
        "drop-nowhere",
        "dropp-dot",
        "stall",
        "stall-soon",
        "greylist",
        "greylist-2-once",
        "lose-answers",
        "newsletter",
        "defer-451",
    ],
)
def test_what_is_no_outcome_is_refused(text: str) -> None:
    with pytest.raises(ScriptFault):
        parse_outcome(text)


def test_a_refusal_names_the_first_word_and_never_more() -> None:
    with pytest.raises(ScriptFault, match=r"^rcptt does not begin") as fault:
        parse_outcome("rcptt-550-5.1.1")
    assert "5.1.1" not in str(fault.value)


def test_a_word_that_could_break_a_reply_line_is_not_repeated() -> None:
    with pytest.raises(ScriptFault, match=r"^it does not begin"):
        parse_outcome("évil\r\n250 fine")


def test_a_local_part_without_plus_asks_for_nothing() -> None:
    assert parse_recipient("pat@example.test") == ()


def test_several_outcomes_keep_the_order_in_which_they_are_written() -> None:
    assert parse_recipient("pat+stall-rcpt-1+greylist-1@example.test") == (
        Stall(phase=Phase.RCPT, seconds=1.0),
        replace(GREYLISTED_TWICE, times=1),
    )


def test_a_quoted_local_part_is_never_a_script() -> None:
    assert parse_recipient('"pat+drop-dot"@example.test') == ()


@pytest.mark.parametrize(
    "text", ["mail-550-5.7.1", "drop-connect", "stall-greeting-1", "drop-quit"]
)
def test_a_recipient_cannot_script_a_phase_that_is_not_its_own(text: str) -> None:
    with pytest.raises(ScriptFault, match="only the whole server"):
        parse_recipient(f"pat+{text}@example.test")


def test_turns_are_counted_for_each_address_in_any_letter_case() -> None:
    turns, outcome = Turns(), parse_outcome("greylist-2")
    assert [turns.take("pat@example.test", outcome) for _ in range(2)] == [True, True]
    assert not turns.take("PAT@example.test", outcome)
    assert turns.take("kim@example.test", outcome)


def test_an_outcome_without_a_limit_plays_every_time() -> None:
    turns, outcome = Turns(), parse_outcome("drop-dot")
    assert all(turns.take("pat@example.test", outcome) for _ in range(5))
