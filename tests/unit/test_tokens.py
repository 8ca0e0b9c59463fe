"""Correlation tokens: what comes back names an attempt, and nothing else does."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sendledger.ledger.tokens import LENGTH, Correlation, TokenRefused, mint, read

OLD, NEW = b"\x01" * 32, b"\x02" * 32
KEYS = {1: OLD, 2: NEW}
TOKEN = mint(KEYS, 1, intent_id=7, number=3)

intent_ids = st.integers(0, 2**63 - 1)
numbers = st.integers(1, 50)


@given(intent_ids, numbers, st.sampled_from([1, 2]))
@settings(deadline=None)
def test_a_token_names_its_attempt_in_whatever_case_it_comes_back(
    intent_id: int, number: int, key_id: int
) -> None:
    token = mint(KEYS, key_id, intent_id=intent_id, number=number)
    named = Correlation(intent_id=intent_id, attempt_number=number, key_id=key_id)
    assert len(token) == LENGTH
    assert token == token.lower()
    assert token.isalnum()
    assert read(KEYS, token) == read(KEYS, token.upper()) == read(KEYS, token.title()) == named


def test_b_plus_and_the_token_fit_a_local_part() -> None:
    assert len(f"b+{TOKEN}") <= 64  # octets, RFC 5321 section 4.5.3.1.1


@given(st.integers(0, LENGTH - 1), st.sampled_from("abcdefghijklmnopqrstuvwxyz234567"))
@settings(deadline=None)
def test_a_token_with_another_letter_names_no_other_attempt(place: int, letter: str) -> None:
    forged = TOKEN[:place] + letter + TOKEN[place + 1 :]
    try:
        named = read(KEYS, forged)
    except TokenRefused:
        return
    assert named == read(KEYS, TOKEN)
    assert forged == TOKEN


@pytest.mark.parametrize(
    "text",
    ["", TOKEN[:-1], TOKEN + "a", TOKEN[:-1] + "1", TOKEN[:-1] + "é", TOKEN[:-1] + "=", " " * 44],
    ids=["empty", "truncated", "longer", "no-base32", "no-ascii", "padded", "spaces"],
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(TokenRefused):
        read(KEYS, text)


def test_a_token_under_another_key_is_refused() -> None:
    with pytest.raises(TokenRefused):
        read({1: NEW}, TOKEN)


def test_a_token_under_a_key_that_is_gone_is_refused() -> None:
    with pytest.raises(TokenRefused):
        read({2: NEW}, TOKEN)


def test_a_token_made_with_the_key_of_nobody_is_refused() -> None:
    nobody = {9: b"\x00" * 32}
    with pytest.raises(TokenRefused):
        read(KEYS, mint(nobody, 9, intent_id=7, number=3))


def test_a_new_key_signs_while_the_old_one_still_reads() -> None:
    newer = mint(KEYS, 2, intent_id=7, number=3)
    assert newer != TOKEN
    assert read(KEYS, TOKEN).key_id == 1
    assert read(KEYS, newer).key_id == 2


def test_one_attempt_always_has_the_same_token() -> None:
    assert mint(KEYS, 1, intent_id=7, number=3) == TOKEN


def test_the_refusal_teaches_nothing() -> None:
    head = base64.b32decode(TOKEN.upper() + "====")[:11]
    well_framed = base64.b32encode(head + bytes(16)).decode().rstrip("=").lower()
    reasons = set()
    for forged in ("short", well_framed, mint({1: NEW}, 1, intent_id=7, number=3)):
        with pytest.raises(TokenRefused) as refused:
            read(KEYS, forged)
        reasons.add(str(refused.value))
    assert len(reasons) == 1


def test_the_spare_bits_of_the_last_letter_are_no_second_way_to_write_a_token() -> None:
    token = mint(KEYS, 1, intent_id=17, number=3)
    spare = {"a": "b", "q": "r"}[token[-1]]
    assert read(KEYS, token).intent_id == 17
    with pytest.raises(TokenRefused):
        read(KEYS, token[:-1] + spare)
