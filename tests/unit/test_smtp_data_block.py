"""What follows 354 has one end, and commands have no room for another command."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendledger_smtp.transaction import data_block, xtext


@pytest.mark.parametrize(
    ("message", "block"),
    [
        (b"a\r\nb\r\n", b"a\r\nb\r\n.\r\n"),
        (b"a", b"a\r\n.\r\n"),
        (b"", b"\r\n.\r\n"),
        (b".a\r\n.\r\n..b\r\n", b"..a\r\n..\r\n...b\r\n.\r\n"),
        (b"a\n.\nb\r.\rc\r\n", b"a\r\n..\r\nb\r\n..\r\nc\r\n.\r\n"),
        (b"a\r\r\nb\n\r\n", b"a\r\n\r\nb\r\n\r\n.\r\n"),
    ],
)
def test_line_ends_are_crlf_and_leading_dots_are_doubled(message: bytes, block: bytes) -> None:
    assert data_block(message) == block


@given(
    st.lists(st.sampled_from([b"\r", b"\n", b".", b"a", b"\r\n.\r\n"]), max_size=12).map(b"".join)
)
def test_no_message_ends_before_its_end_for_the_most_lenient_reader(message: bytes) -> None:
    block = data_block(message)
    ends = re.split(rb"(?:\r\n|\r|\n)\.(?:\r\n|\r|\n)", b"\r\n" + block)
    assert len(ends) == 2
    assert ends[1] == b""
    assert block.count(b"\r\n") == block.count(b"\r") == block.count(b"\n")


def test_xtext_keeps_what_a_parameter_may_hold_and_encodes_the_rest() -> None:
    assert xtext("pat+school=x@a.example") == "pat+2Bschool+3Dx@a.example"
    assert xtext("a b\r\n") == "a+20b+0D+0A"
