"""A channel counts what its messages are charged as; a count is information and never holds anybody."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from plugins_for_tests.members import Base, port, recorder
from sendledger.plugin.checks import channel_member
from sendledger.plugin.faults import Faults, PluginFault


class Counting(Base):
    """A recorder whose messages are counted in letters."""

    def __init__(self) -> None:
        super().__init__()
        self.capabilities = dataclasses.replace(self.capabilities, units="letters")

    def units_of(self, message: bytes) -> Any:
        return len(message)


def test_the_channel_counts() -> None:
    assert port(Counting()).units_of(b"hello") == 5


def test_a_channel_that_declares_no_units_is_not_asked() -> None:
    assert port(recorder()).units_of(b"hello") is None


def test_a_channel_that_declares_units_must_count_them() -> None:
    class Idle(Counting):
        units_of = None  # type: ignore[assignment]

    with pytest.raises(PluginFault, match="lacks a plain method units_of"):
        channel_member("desk", Idle())


@pytest.mark.parametrize("answer", [-1, 32_768, 2.0, None, "many"])
def test_a_count_that_no_ledger_holds_is_a_fault_and_counts_as_none(answer: object) -> None:
    class Lying(Counting):
        def units_of(self, message: bytes) -> Any:
            return answer if message else 0

    faults = Faults()
    assert port(Lying(), faults=faults).units_of(b"hello") is None
    assert faults["desk", "units_of"] == 1


def test_a_count_that_raises_is_a_fault_and_counts_as_none() -> None:
    class Raising(Counting):
        def units_of(self, message: bytes) -> Any:
            raise ValueError(message.decode())

    faults = Faults()
    assert port(Raising(), faults=faults).units_of(b"hello") is None
    assert faults["desk", "units_of"] == 1
