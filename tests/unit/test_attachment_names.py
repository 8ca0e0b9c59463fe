"""A file has one plain name, whatever a column says; it looks like what it is."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendledger.attachments.names import NAME_MAX_OCTETS, clean_name


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("report.pdf", "report.pdf"),
        ("  report.pdf \t", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\reports\\Sam.pdf", "Sam.pdf"),
        ("report\r\nBcc: eve.pdf", "reportBcc: eve.pdf"),
        ("report\u202efdp.exe", "reportfdp.exe"),
        ("\u2066Zeugnis\u2069 Mu\u0308ller.pdf", "Zeugnis Müller.pdf"),
        ("a\0b\x7f\u0085\u2028.pdf", "ab.pdf"),
        ("..hidden.pdf", "hidden.pdf"),
        ("\u0645\u06cc\u200c\u0631\u0648.pdf", "\u0645\u06cc\u200c\u0631\u0648.pdf"),
    ],
)
def test_a_name_is_its_last_step_without_what_cannot_be_seen(given_name: str, name: str) -> None:
    assert clean_name(given_name) == name


@pytest.mark.parametrize("text", ["", " ", "..", "a/", "\u202e", "\u200d", "\r\n"])
def test_a_name_of_which_nothing_is_left_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is empty"):
        clean_name(text)


def test_a_name_that_no_file_system_holds_is_refused() -> None:
    assert clean_name("x" * NAME_MAX_OCTETS)
    with pytest.raises(ValueError, match="longer than 150 octets") as refused:
        clean_name("ö" * NAME_MAX_OCTETS)
    assert "ö" not in str(refused.value)


@given(st.text(max_size=40))
def test_a_clean_name_holds_no_step_control_or_mark_and_stays_clean(text: str) -> None:
    try:
        name = clean_name(text)
    except ValueError:
        return
    assert not {"/", "\\"} & set(name)
    kinds = {unicodedata.category(c) for c in name if c not in "\u200c\u200d"}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert clean_name(name) == name
