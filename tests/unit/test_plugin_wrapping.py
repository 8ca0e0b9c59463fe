"""Deployment plugins may stand in for plain answers of a channel or wrap them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from plugins_for_tests.members import Base, port, recorder
from sendledger.plugin import (
    Destination,
    DestinationRefused,
    hookimpl,
)
from sendledger.plugin.faults import PluginFault


class StandIn:
    @hookimpl(tryfirst=True)
    def sendledger_destination(self, text: str) -> Destination | None:
        return Destination(address="everyone", canonical="everyone") if text == "all" else None


class Upper:
    @hookimpl(wrapper=True)
    def sendledger_destination(self) -> Generator[None, Destination, Destination]:
        found = yield
        return found._replace(address=found.address.upper())


def test_a_deployment_plugin_stands_in_where_it_tries_first() -> None:
    desk = port(recorder(), StandIn())

    assert desk.destination("all").address == "everyone"
    assert desk.destination("hall").address == "hall"


def test_the_channel_is_asked_before_a_plugin_that_does_not_try_first() -> None:
    class Late:
        @hookimpl
        def sendledger_destination(self) -> Destination:
            raise AssertionError

    assert port(recorder(), Late()).destination("hall").address == "hall"


def test_plain_hooks_can_be_wrapped() -> None:
    assert port(recorder(), Upper(), StandIn()).destination("all").address == "EVERYONE"


def test_a_refusal_passes_through_a_wrapper() -> None:
    with pytest.raises(DestinationRefused):
        port(recorder(), Upper()).destination(" ")


def test_a_wrapper_is_held_to_the_promise_of_its_hook() -> None:
    class Careless:
        @hookimpl(wrapper=True)
        def sendledger_destination(self) -> Generator[None, Any, Any]:
            found = yield
            return found.address

    with pytest.raises(PluginFault, match='of "module0" gave str; expected Destination'):
        port(recorder(), Careless()).destination("hall")


def test_one_channel_is_never_asked_about_another() -> None:
    class Other(Base):
        @hookimpl
        def sendledger_destination(self, text: str) -> Destination:
            return Destination(address=text, canonical="other")

    desk, hall = port(recorder()), port(Other())

    assert desk.destination("x").canonical == "x"
    assert hall.destination("x").canonical == "other"
