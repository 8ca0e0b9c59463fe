"""Dots, line ends and limits of a received message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendledger_sandbox.wire import fault_of, unstuff

LINES = st.lists(st.text(".ab", max_size=4)).map(
    lambda lines: "".join(f"{x}\r\n" for x in lines).encode()
)


def stuff(message: bytes) -> bytes:
    lines = message.split(b"\r\n")
    return b"\r\n".join(b"." + line if line.startswith(b".") else line for line in lines)


@given(LINES)
def test_unstuffing_gives_back_what_was_stuffed(message: bytes) -> None:
    assert unstuff(stuff(message)) == message
    assert unstuff(stuff(message), strict=False) == message


@given(LINES)
def test_a_correctly_stuffed_message_has_no_fault(message: bytes) -> None:
    assert fault_of(stuff(message), eight_bit=False) is None


@pytest.mark.parametrize(
    "message", [b"a\nb\r\n", b"a\rb\r\n", b"a\r\r\nb\r\n", b"a\n\r\n", b"\r\n\r"]
)
def test_a_bare_cr_or_lf_is_a_fault(message: bytes) -> None:
    assert str(fault_of(message, eight_bit=True)).startswith("554 5.6.0 bare CR or LF")


@pytest.mark.parametrize("message", [b".a\r\n", b"a\r\n.b\r\n"])
def test_a_dot_that_was_not_doubled_is_a_fault(message: bytes) -> None:
    assert "not doubled" in str(fault_of(message, eight_bit=True))


@pytest.mark.parametrize(("octets", "refused"), [(998, False), (999, True)])
@pytest.mark.parametrize("first", [b"y", b".."])
def test_a_line_has_at_most_998_octets_its_stuffed_dot_not_counted(
    octets: int, first: bytes, refused: bool
) -> None:
    line = first + b"y" * (octets - 1) + b"\r\n"
    assert (fault_of(line, eight_bit=False) is not None) is refused


def test_eight_bit_content_must_be_announced() -> None:
    message = "grüße\r\n".encode()
    assert str(fault_of(message, eight_bit=False)).startswith("554 5.6.1")
    assert fault_of(message, eight_bit=True) is None
