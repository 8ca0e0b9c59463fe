"""Identities: the same intent has one key, different intents have different ones."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sendledger.ledger import identity as identities
from sendledger.ledger.identity import (
    Identity,
    IdentityError,
    IntentKeys,
    Keyed,
    content_digest,
    identity_text,
    intent_key,
    keyed,
    seal,
    variables_text,
)

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
PERSON = Identity(report="spring", recipient="pupil-1", channel="mail", revision="r1")
TEXTS = ["report", "recipient", "channel", "revision"]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def test_an_intent_key_is_sixteen_bytes_and_stays_the_same() -> None:
    assert len(intent_key(KEY, PERSON)) == 16
    assert intent_key(KEY, PERSON) == intent_key(KEY, replace(PERSON))


@pytest.mark.parametrize("name", TEXTS)
def test_every_part_of_an_identity_makes_another_key(name: str) -> None:
    changes: dict[str, Any] = {name: "other"}
    other = replace(PERSON, **changes)
    assert intent_key(KEY, other) != intent_key(KEY, PERSON)


def test_a_correction_is_another_intent() -> None:
    corrected = replace(PERSON, correction=1)
    assert intent_key(KEY, corrected) != intent_key(KEY, PERSON)
    assert {field.name for field in fields(Identity)} == {*TEXTS, "correction"}


def test_another_installation_has_other_keys() -> None:
    assert intent_key(OTHER_KEY, PERSON) != intent_key(KEY, PERSON)


def test_the_version_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = intent_key(KEY, PERSON)
    monkeypatch.setattr(identities, "KEY_VERSION", "2")
    assert intent_key(KEY, PERSON) != before


def test_text_that_moves_from_one_part_to_the_next_makes_another_key() -> None:
    one = replace(PERSON, report="spring", recipient="1pupil")
    other = replace(PERSON, report="spring1", recipient="pupil")
    assert intent_key(KEY, one) != intent_key(KEY, other)


@given(st.lists(texts, max_size=4), st.lists(texts, max_size=4))
@settings(deadline=None)
def test_digests_are_equal_only_for_equal_parts(one: list[str], other: list[str]) -> None:
    assert (keyed(KEY, *one) == keyed(KEY, *other)) == (one == other)


def test_composed_and_decomposed_letters_are_the_same_person() -> None:
    composed, decomposed = "Zoë", "Zoe\N{COMBINING DIAERESIS}"
    assert composed != decomposed
    assert intent_key(KEY, replace(PERSON, recipient=composed)) == intent_key(
        KEY, replace(PERSON, recipient=decomposed)
    )


def test_space_around_a_part_is_not_part_of_it() -> None:
    assert identity_text("report", "  spring 2026\n") == "spring 2026"


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("text", ["a\0b", "a\nb", "a\x1bb", "a\x85b", "a\ud800b"])
def test_control_characters_are_refused_by_the_name_of_the_part(name: str, text: str) -> None:
    with pytest.raises(IdentityError, match=f"^{name} holds a control character$"):
        identity_text(name, text)


@pytest.mark.parametrize("text", ["", "   "])
def test_an_empty_part_is_refused(text: str) -> None:
    with pytest.raises(IdentityError, match=r"^recipient is empty$"):
        intent_key(KEY, replace(PERSON, recipient=text))


def test_the_order_of_variables_does_not_change_what_is_read() -> None:
    def digest(template: str = "t1", **variables: Any) -> bytes:
        return content_digest(KEY, template_revision=template, variables=variables)

    assert digest(name="Ada", year=3) == digest(year=3, name="Ada")
    assert digest(name="Ada") != digest(name="Bea")
    assert digest(name="Ada") != digest("t2", name="Ada")
    assert digest(year=3) != digest(year="3")


PARTS = (4, "channel", "test.rule", None, True, "", 250)


@pytest.mark.parametrize("place", range(len(PARTS)))
@pytest.mark.parametrize("value", ["changed", None, 0])
def test_a_seal_changes_with_every_part(place: int, value: object) -> None:
    changed = [*PARTS[:place], value, *PARTS[place + 1 :]]
    if value != PARTS[place]:
        assert seal(KEY, 1, *changed) != seal(KEY, 1, *PARTS)


def test_a_seal_changes_with_key_and_intent() -> None:
    assert len({seal(KEY, 1, *PARTS), seal(KEY, 2, *PARTS), seal(OTHER_KEY, 1, *PARTS)}) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c"), ("a", "bc")),
        (("a\x1fb", "c"), ("a", "b\x1fc")),
        ((None, "a"), ("", "a")),
        (("1:a", "b"), ("1", "a1:b")),
        (("-",), (None,)),
    ],
)
def test_parts_of_a_seal_do_not_run_into_each_other(
    one: tuple[str | None, ...], other: tuple[str | None, ...]
) -> None:
    assert seal(KEY, 1, *one) != seal(KEY, 1, *other)


def test_rows_that_swap_places_no_longer_fit_their_seals() -> None:
    seals = [seal(KEY, 1, seq, "observation", "same") for seq in range(1, 9)]
    assert all(one != other for one, other in pairwise(seals))


@given(texts, texts, texts, texts)
def test_what_is_worked_out_once_gives_the_same_key(
    report: str, recipient: str, channel: str, revision: str
) -> None:
    identity = Identity(report=report, recipient=recipient, channel=channel, revision=revision)
    try:
        expected = intent_key(KEY, identity)
    except IdentityError:
        with pytest.raises(IdentityError):
            IntentKeys(KEY, report=report, channel=channel, revision=revision).of(recipient)
    else:
        keys = IntentKeys(KEY, report=report, channel=channel, revision=revision)
        assert keys.of(recipient) == expected


@given(st.lists(texts, max_size=3), st.lists(texts, max_size=3))
def test_first_parts_may_be_worked_out_once(first: list[str], rest: list[str]) -> None:
    digests = Keyed(KEY, *first)
    assert [digests.of(*rest), digests.of(*rest)] == [keyed(KEY, *first, *rest)] * 2


@given(st.dictionaries(texts, st.one_of(st.none(), texts, st.integers(), st.lists(texts))))
def test_variables_have_one_text_and_it_is_what_is_digested(variables: dict[str, Any]) -> None:
    text = variables_text(dict(reversed(variables.items())))
    assert text == variables_text(variables)
    assert content_digest(KEY, template_revision="t", variables=variables) == keyed(KEY, "t", text)
