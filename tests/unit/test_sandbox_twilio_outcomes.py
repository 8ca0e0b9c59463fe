"""The script language of the Twilio stand-in, and which number asks for what."""

from __future__ import annotations

import math
import re
from pathlib import Path

import phonenumbers
import pytest

from sendledger_sandbox import ScriptFault
from sendledger_sandbox.twilio import LANGUAGE, TABLE, Phase
from sendledger_sandbox.twilio.numbers import TWILIOS_OWN, outcomes_of
from sendledger_sandbox.twilio.outcomes import (
    Course,
    Drop,
    End,
    Garble,
    Late,
    Oddity,
    Outcome,
    Refuse,
    Stall,
    course_in,
    parse_script,
    staged_in,
)

REQUEST, ACCEPTED, LOOK_UP = Phase.REQUEST, Phase.ACCEPTED, Phase.LOOK_UP
PAGE = Path(__file__).parents[2] / "docs" / "sandbox.md"


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("refuse-21610", Refuse(phase=REQUEST, status=400, code=21610)),
        ("refuse-20003", Refuse(phase=REQUEST, status=401, code=20003)),
        ("REFUSE-20429-once", Refuse(phase=REQUEST, status=429, code=20429, times=1)),
        ("http-500", Refuse(phase=REQUEST, status=500, code=20500)),
        ("http-502-accepted", Refuse(phase=ACCEPTED, status=502, code=20502)),
        ("http-503-look-up-once", Refuse(phase=LOOK_UP, status=503, code=20503, times=1)),
        (
            "rate-limit-7",
            Refuse(phase=REQUEST, status=429, code=20429, retry_after_s=7),
        ),
        ("drop-request-once", Drop(phase=REQUEST, times=1)),
        ("lose-answer", Drop(phase=ACCEPTED)),
        ("garble-answer-once", Garble(times=1)),
        ("silence", Stall(phase=ACCEPTED, seconds=math.inf)),
        ("stall-0.5", Stall(phase=ACCEPTED, seconds=0.5)),
        ("stall-look-up-2", Stall(phase=LOOK_UP, seconds=2)),
        ("end-sent", End(status="sent")),
        ("end-partially_delivered", End(status="partially_delivered")),
        ("end-undelivered-30003", End(status="undelivered", code=30003)),
        ("callbacks-late-1.5", Late(seconds=1.5)),
        ("callbacks-forged-first", Oddity.FORGED_FIRST),
    ],
)
def test_an_outcome_is_read_as_it_is_documented(text: str, outcome: Outcome) -> None:
    assert parse_script(text) == (outcome,)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("+twice", "it"),
        ("explode", "explode"),
        ("refuse-1", "refuse"),
        ("http-201", "http"),
        ("drop-dot", "drop"),
        ("end-", "end"),
        ("callbacks", "callbacks"),
        ("end-sent+", "it"),
        ("end-sent-once", "end"),
        ("12025550101", "it"),
    ],
)
def test_what_is_no_outcome_is_named_by_its_first_word_only(text: str, word: str) -> None:
    with pytest.raises(ScriptFault, match=f"^{word} does not begin an outcome") as caught:
        parse_script(text)
    assert not re.search(r"\d", str(caught.value))


def test_only_the_whole_server_scripts_a_connection() -> None:
    assert parse_script("drop-connect-once", connect=True) == (Drop(phase=Phase.CONNECT, times=1),)
    for text, connect in (("drop-connect", False), ("http-500-connect", True)):
        with pytest.raises(ScriptFault, match="only the whole server"):
            parse_script(text, connect=connect)


def test_every_form_that_is_explained_is_understood() -> None:
    forms = re.findall(r"^  ([a-z]\S*)", LANGUAGE, re.MULTILINE)
    assert len(forms) == 18
    filled = {"CODE": "30003", "STATUS": "500", "SECONDS": "1", "PHASE": "request"}
    for form in forms:
        text = form.replace("end-STATUS", "end-sent")
        for name, value in filled.items():
            text = text.replace(name, value)
        assert parse_script(text.replace("[", "").replace("]", ""))


def test_what_a_number_asks_for_comes_before_what_everybody_gets() -> None:
    own = parse_script("end-undelivered-30003+callbacks-twice")
    everywhere = parse_script("end-sent+callbacks-late-1")
    assert course_in(own, everywhere) == Course(
        ends=(End(status="undelivered", code=30003),),
        oddities=frozenset({Oddity.TWICE}),
        late_s=1.0,
    )
    assert course_in((), everywhere).ends == (End(status="sent"),)
    assert course_in(()).ends == (End(status="delivered"),)


# --- numbers ---------------------------------------------------------------------------------------


def test_half_of_the_fictitious_numbers_are_delivered_to() -> None:
    assert all(outcomes_of(f"+121255501{digits:02}") == () for digits in range(50))
    assert all(outcomes_of(f"+121255501{digits:02}") != () for digits in TABLE)
    assert min(TABLE) == 50


def test_the_area_does_not_matter() -> None:
    assert outcomes_of("+12025550152") == outcomes_of("+19075550152") != ()


@pytest.mark.parametrize(
    "number", ["+12125551152", "+12125560152", "+442079460052", "+121255501520", "12125550152"]
)
def test_a_number_that_could_be_somebodys_asks_for_nothing(number: str) -> None:
    assert outcomes_of(number) == ()


def test_numbers_of_the_table_are_possible_ones() -> None:
    """A channel that validates its destinations lets them through."""
    assert all(
        phonenumbers.is_valid_number(phonenumbers.parse(f"+120255501{digits:02}"))
        for digits in range(100)
    )


def test_twilios_own_numbers_are_refused_as_it_documents() -> None:
    for number in TWILIOS_OWN:
        assert len(staged_in(outcomes_of(number))) == 1


def test_the_documentation_shows_the_table_as_it_is() -> None:
    rows = re.findall(r"^\| 01(\d\d) \| `([^`]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {int(digits): text for digits, text in rows} == dict(TABLE)
