"""At planning, core sees a channel's answers and refusals, or a fault that quotes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from plugins_for_tests.members import SECRET, Base, port, recorder
from sendledger.plugin import (
    Addressee,
    Content,
    ContentFault,
    Destination,
    DestinationRefused,
    Writer,
    hookimpl,
)
from sendledger.plugin.faults import Faults, PluginFault

ADDRESSEE = Addressee(
    intent_key="0" * 64, attempt_number=1, token="a" * 44, destination=SECRET, variables={"n": "A"}
)


class Greeting:
    """A template of one variable, ``n``."""

    variables = frozenset({"n"})
    static = ("", "")

    def splice(self, values: Mapping[str, Any]) -> list[str]:
        return [self.render(values)]

    def render(self, values: Mapping[str, Any]) -> str:
        return f"Hello {values['n']}"


CONTENT = Content(revision="spring-1", parts={"text": Greeting()})


def test_a_destination_comes_from_the_channel() -> None:
    found = port(recorder()).destination(" Desk ")

    assert found == Destination(address="Desk", canonical="desk")


def test_a_refused_destination_is_an_answer() -> None:
    faults = Faults()

    with pytest.raises(DestinationRefused):
        port(recorder(), faults=faults).destination(" ")

    assert not faults


def test_a_destination_of_the_wrong_type_names_the_types_and_no_value() -> None:
    class Liar(Base):
        @hookimpl
        def sendledger_destination(self, text: str) -> Any:
            return text

    with pytest.raises(PluginFault) as caught:
        port(Liar()).destination(SECRET)

    assert str(caught.value) == ('sendledger_destination of "desk" gave str; expected Destination')
    assert (caught.value.plugin, caught.value.hook) == ("desk", "sendledger_destination")


def test_a_coroutine_from_a_plain_hook_is_refused_and_closed() -> None:
    async def later() -> None: ...

    class Late(Base):
        @hookimpl
        def sendledger_destination(self, text: str) -> Any:  # noqa: ARG002
            return later()

    with pytest.raises(PluginFault, match="gave coroutine; expected Destination"):
        port(Late()).destination(SECRET)


def test_no_destination_at_all_is_a_fault() -> None:
    class Mute(Base):
        @hookimpl
        def sendledger_destination(self, text: str) -> Any: ...

    with pytest.raises(PluginFault, match="gave nothing; expected Destination"):
        port(Mute()).destination(SECRET)


def test_what_a_destination_raises_loses_its_message() -> None:
    class Leaky(Base):
        @hookimpl
        def sendledger_destination(self, text: str) -> Destination:
            raise KeyError(text)

    with pytest.raises(PluginFault) as caught:
        port(Leaky()).destination(SECRET)

    assert "raised KeyError at test_plugin_planning.py:" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_writer_splices_an_addressee_in() -> None:
    writer = port(recorder()).prepare(CONTENT)

    assert writer.write(ADDRESSEE) == b"Hello A"


def test_what_a_writer_raises_holds_one_message_and_loses_its_text() -> None:
    writer = port(recorder()).prepare(CONTENT)

    with pytest.raises(ContentFault) as caught:
        writer.write(dataclasses.replace(ADDRESSEE, variables={}))

    assert caught.value.rule == "content.plugin-fault"
    assert "the writer raised KeyError" in str(caught.value)


def test_a_writer_gives_bytes() -> None:
    class TextWriter:
        def write(self, addressee: Addressee) -> Any:
            return addressee.destination

    class Texting(Base):
        @hookimpl
        def sendledger_prepare(self, content: Content) -> Writer:  # noqa: ARG002
            return TextWriter()

    with pytest.raises(ContentFault, match="the writer gave str; expected bytes"):
        port(Texting()).prepare(CONTENT).write(ADDRESSEE)


def test_content_faults_are_answers() -> None:
    class Strict(Base):
        @hookimpl
        def sendledger_prepare(self, content: Content) -> Writer:  # noqa: ARG002
            raise ContentFault("desk.subject", "no subject")

    with pytest.raises(ContentFault, match=r"desk\.subject"):
        port(Strict()).prepare(CONTENT)


def test_the_sender_is_text() -> None:
    class Numbered(Base):
        def sender_of(self, content_settings: Mapping[str, str]) -> Any:
            return len(content_settings)

    assert port(recorder()).sender_of({"from": "nurse"}) == "nurse"
    with pytest.raises(PluginFault, match='sender_of of "desk" gave int; expected str'):
        port(Numbered()).sender_of({})
