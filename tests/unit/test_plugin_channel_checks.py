"""Half a channel is refused at start-up, and every missing piece is named."""

from __future__ import annotations

from typing import Any

import pytest

from plugins_for_tests.members import Base
from sendledger.plugin import Capabilities, Channel, hookimpl
from sendledger.plugin.checks import channel_member
from sendledger.plugin.faults import PluginFault


def refusal_of_channel(channel: object) -> str:
    with pytest.raises(PluginFault) as caught:
        channel_member("desk", channel)
    assert caught.value.plugin == "desk"
    return str(caught.value)


def test_a_whole_channel_is_accepted() -> None:
    member = channel_member("desk", Base())

    assert member.registered == "desk"
    assert set(member.hooks) == {
        "sendledger_destination",
        "sendledger_prepare",
        "sendledger_session",
        "sendledger_submit",
        "sendledger_classify",
    }


def test_an_async_generator_without_its_context_is_refused() -> None:
    class Bare(Base):
        @hookimpl
        async def sendledger_session(self) -> Any:
            yield self

    assert "is an async generator; write it as plain def" in refusal_of_channel(Bare())


def test_a_channel_observes_nothing() -> None:
    class Curious(Base):
        @hookimpl
        def sendledger_observed(self) -> None: ...

    assert "belongs to the module, not to a channel" in refusal_of_channel(Curious())


def test_a_channel_does_not_order_itself_before_the_deployment() -> None:
    class Pushy(Base):
        @hookimpl(tryfirst=True)
        def sendledger_destination(self, text: str) -> Any: ...

    assert "use a bare @hookimpl" in refusal_of_channel(Pushy())


def test_every_missing_method_of_a_channel_is_named() -> None:
    class Empty:
        capabilities = Base.capabilities

    assert refusal_of_channel(Empty()) == (
        'channel "desk" lacks sendledger_destination, sendledger_prepare, '
        "sendledger_session, sendledger_submit"
    )


def test_a_promise_inherited_from_the_protocol_is_not_kept_by_it() -> None:
    half: Any = type("Half", (Channel,), {"capabilities": Base.capabilities})

    assert "lacks sendledger_destination" in refusal_of_channel(half())


def test_a_channel_without_an_opinion_need_not_classify() -> None:
    class Silent(Base):
        sendledger_classify = None  # type: ignore[assignment]

    assert "sendledger_classify" not in channel_member("desk", Silent()).hooks


def test_a_channel_names_its_sender() -> None:
    class Nameless(Base):
        sender_of = None  # type: ignore[assignment]

    assert refusal_of_channel(Nameless()) == 'channel "desk" lacks a plain method sender_of'


def test_capabilities_are_of_their_type() -> None:
    class Boastful(Base):
        capabilities: Any = "all of them"

    text = refusal_of_channel(Boastful())

    assert text == 'channel "desk": capabilities must be Capabilities, found str'


def test_capabilities_that_raise_are_a_fault_without_the_message() -> None:
    class Failing(Base):
        @property
        def capabilities(self) -> Capabilities:  # type: ignore[override]
            raise LookupError("password=hunter2")

    text = refusal_of_channel(Failing())

    assert "capabilities raised LookupError at test_plugin_channel_checks.py" in text
    assert "hunter2" not in text


def test_required_parts_are_rendered_parts() -> None:
    class Impossible(Base):
        capabilities = Capabilities(
            parts={"text": False}, required_parts=frozenset({"text", "subject"})
        )

    assert "requires parts that it does not render: subject" in refusal_of_channel(Impossible())
