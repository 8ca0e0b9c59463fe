"""The short way to a destination gives the answer of the long one, whatever it is asked."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sendledger.plugin import Destination, DestinationRefused
from sendledger_smtp import destination
from sendledger_smtp.destination import read_destination

LETTERS = 'abZ09._+-!#=/@"<>()[]\\,;: \t\x00ü\u0301\uff20'
LABELS = ["home", "HOME", "xn--bcher-kva", "xn--x", "a-", "-a", "a_b", "1", "", "bücher", "a" * 64]
ENDINGS = ["test", "example", "TEST", "localhost", "invalid", "com", "1", "c_m", "", "test."]
ROLES = ["Info", "POSTMASTER", "postmaster", "Abuse", "Info.x", "www", "WWW"]

locals_ = st.one_of(
    st.text(LETTERS, max_size=8),
    st.text(max_size=4),
    st.sampled_from(ROLES),
    st.from_regex(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,70}", fullmatch=True),
)
domains = st.one_of(
    st.lists(st.sampled_from(LABELS), max_size=5).flatmap(
        lambda labels: st.sampled_from(ENDINGS).map(lambda end: ".".join([*labels, end]))
    ),
    st.text(LETTERS, max_size=8),
    st.text(max_size=4),
)
addresses = st.one_of(st.builds("{}@{}".format, locals_, domains), st.text(LETTERS, max_size=12))


def answer(ask: object, text: str) -> Destination | tuple[str, str]:
    assert callable(ask)
    try:
        found = ask(text)
    except DestinationRefused as refused:
        return (refused.reason, refused.remedy)
    assert isinstance(found, Destination)
    return found


@settings(max_examples=1500, deadline=None)
@given(addresses)
@example("a" * 64 + "@" + "b" * 60 + ".example")
@example("a" * 64 + "@" + ".".join(["b" * 60] * 3) + ".ccc")
@example("a" * 64 + "@" + ".".join(["b" * 60] * 3) + ".cccc")
@example("a@" + "xn--" + "a" * 59 + ".example")
@example("Info@home.test")
@example("a@b@home.test")
@example("a@home.test<b@home.test>")
def test_the_short_way_gives_the_answer_of_the_long_one(text: str) -> None:
    assert answer(read_destination, text) == answer(destination._read_any, text)


@pytest.mark.parametrize(
    "text", ["ann.b+c@home.test", "Ann.Miller@Home.test", "o'neill@home.test", "info@home.test"]
)
def test_an_ordinary_address_takes_the_short_way(text: str) -> None:
    assert destination._read_plain(text) == read_destination(text)


@pytest.mark.parametrize("text", ["Info@home.test", "ü@home.test", "a@bücher.test", "nobody", "@"])
def test_what_is_not_plain_to_see_is_left_to_the_long_way(text: str) -> None:
    assert destination._read_plain(text) is None
