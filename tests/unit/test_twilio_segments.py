"""Segments are counted as the standards say, and as an independent counter counts them."""

# ruff: noqa: RUF001 - typography is what this is about

from __future__ import annotations

import pytest
import smsutil
from hypothesis import given
from hypothesis import strategies as st

from sendledger_twilio.segments import BASIC, EXTENDED, Encoding, foreign, measure
from sendledger_twilio.typography import write_plainly

GSM, UCS = Encoding.GSM_7, Encoding.UCS_2


@pytest.mark.parametrize(
    ("text", "encoding", "units", "segments"),
    [
        ("", GSM, 0, 0),
        ("a", GSM, 1, 1),
        ("a" * 160, GSM, 160, 1),
        ("a" * 161, GSM, 161, 2),
        ("a" * 306, GSM, 306, 2),
        ("a" * 307, GSM, 307, 3),
        ("€" * 80, GSM, 160, 1),
        ("€" * 81, GSM, 162, 2),
        ("a" * 152 + "€" + "a" * 152, GSM, 306, 3),
        ("я" * 70, UCS, 70, 1),
        ("я" * 71, UCS, 71, 2),
        ("я" * 134, UCS, 134, 2),
        ("я" * 135, UCS, 135, 3),
        ("\N{GRINNING FACE}" * 35, UCS, 70, 1),
        ("\N{GRINNING FACE}" * 36, UCS, 72, 2),
        ("я" * 66 + "\N{GRINNING FACE}" + "я" * 66, UCS, 134, 3),
        ("^{}[]~|\\", GSM, 16, 1),
        ("[]" + "я", UCS, 3, 1),
        ("ç", UCS, 1, 1),
        ("Ç", GSM, 1, 1),
    ],
)
def test_a_text_is_charged_as(text: str, encoding: Encoding, units: int, segments: int) -> None:
    size = measure(text)
    assert (size.encoding, size.units, size.segments) == (encoding, units, segments)


letters = st.text(
    st.one_of(
        st.sampled_from(sorted(BASIC | EXTENDED)),
        st.sampled_from("éя中\N{GRINNING FACE}’–\u00a0"),
    ),
    max_size=400,
)
gsm_letters = st.text(st.sampled_from(sorted(BASIC | EXTENDED)), max_size=500)


@given(st.one_of(letters, gsm_letters))
def test_an_independent_counter_agrees(text: str) -> None:
    size, other = measure("a" + text), smsutil.split("a" + text)
    assert size.segments == len(other.parts)
    assert (size.encoding is GSM) == (other.encoding == "gsm0338")


@given(letters)
def test_more_text_never_costs_less(text: str) -> None:
    assert measure(text + "a").segments >= measure(text).segments


def test_the_characters_that_cost_are_named_once_each() -> None:
    assert foreign("it’s – it’s") == ("’", "–")


# --- smart encoding ------------------------------------------------------------------------------


def test_typography_is_written_plainly() -> None:
    text = "“Sam’s report” – grade: B…\u00a0see «below»"
    assert write_plainly(text) == '"Sam\'s report" - grade: B... see "below"'
    assert measure(write_plainly(text)).encoding is GSM


def test_names_keep_their_letters() -> None:
    assert write_plainly("Zoë Škvorecký 李") == "Zoë Škvorecký 李"


def test_a_link_is_left_as_it_is() -> None:
    link = "https://school.example/a–b’c"
    assert write_plainly(f"‘{link} –") == f"'{link} -"
    assert write_plainly(link.upper().replace("A–B", "a–b")) == link.upper().replace("A–B", "a–b")


@given(st.text(max_size=80))
def test_writing_plainly_once_is_enough(text: str) -> None:
    once = write_plainly(text)
    assert write_plainly(once) == once
