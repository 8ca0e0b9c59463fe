"""What can be found wrong with a plugin before it is called is refused before it is called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sendledger.plugin import Evidence, hookimpl
from sendledger.plugin.checks import module_member
from sendledger.plugin.faults import PluginFault


def refusal_of_module(**functions: Any) -> str:
    module = type("module", (), {n: staticmethod(f) for n, f in functions.items()})
    with pytest.raises(PluginFault) as caught:
        module_member("acme", module)
    assert caught.value.plugin == "acme"
    return str(caught.value)


def test_a_misspelt_hook_is_refused_with_the_nearest_name() -> None:
    @hookimpl
    def sendledger_observe(observations: Any) -> None: ...

    text = refusal_of_module(sendledger_observe=sendledger_observe)

    assert text == 'sendledger_observe of "acme" is no hook; did you mean sendledger_observed?'


def test_a_misspelt_hook_is_refused_even_unmarked() -> None:
    def sendledger_autorize(candidates: Any) -> None: ...

    text = refusal_of_module(sendledger_autorize=sendledger_autorize)

    assert "did you mean sendledger_authorize?" in text


def test_a_hook_like_no_other_is_refused_with_all_names() -> None:
    def sendledger_zzz() -> None: ...

    text = refusal_of_module(sendledger_zzz=sendledger_zzz)

    assert "is no hook; known: sendledger_authorize, sendledger_channel" in text


def test_a_hook_of_another_release_may_be_marked_optional() -> None:
    class Module:
        @hookimpl(optionalhook=True)
        def sendledger_tomorrow(self) -> None: ...

    assert not module_member("acme", Module()).hooks


def test_a_hook_without_its_mark_is_refused() -> None:
    def sendledger_observed(observations: Any) -> None: ...

    text = refusal_of_module(sendledger_observed=sendledger_observed)

    assert text == 'sendledger_observed of "acme" is not marked; put @hookimpl above it'


def test_an_async_implementation_of_a_plain_hook_is_refused() -> None:
    @hookimpl
    async def sendledger_observed(observations: Any) -> None: ...

    text = refusal_of_module(sendledger_observed=sendledger_observed)

    assert text == 'sendledger_observed of "acme" is async; write it as plain def'


def test_a_plain_implementation_of_an_async_hook_is_refused() -> None:
    @hookimpl
    def sendledger_authorize(candidates: Any) -> None: ...

    text = refusal_of_module(sendledger_authorize=sendledger_authorize)

    assert text == 'sendledger_authorize of "acme" is plain; write it as async def'


def test_a_generator_that_is_no_wrapper_is_refused() -> None:
    @hookimpl
    def sendledger_classify() -> Iterator[None]:
        yield

    text = refusal_of_module(sendledger_classify=sendledger_classify)

    assert "is a generator; write it as plain def" in text


@pytest.mark.parametrize("argument", ["evidense", "*", "**"])
def test_an_argument_that_no_hook_passes_is_refused(argument: str) -> None:
    @hookimpl
    def misnamed(channel: str, evidense: Evidence) -> None: ...

    @hookimpl
    def positional(*evidence: Evidence) -> None: ...

    @hookimpl
    def keyword_only(*, evidence: Evidence) -> None: ...

    function = {"evidense": misnamed, "*": positional, "**": keyword_only}[argument]

    text = refusal_of_module(sendledger_classify=function)

    assert "cannot be given the argument" in text
    assert "write sendledger_classify(channel, evidence)" in text


def test_arguments_that_are_not_needed_may_be_left_out() -> None:
    class Module:
        @hookimpl
        def sendledger_classify(self, evidence: Evidence) -> None: ...

    assert "sendledger_classify" in module_member("acme", Module()).hooks


def test_an_async_hook_may_not_be_wrapped() -> None:
    @hookimpl(wrapper=True)
    def sendledger_authorize() -> Iterator[None]:
        yield

    text = refusal_of_module(sendledger_authorize=sendledger_authorize)

    assert "may not be wrapped; only sendledger_classify, sendledger_destination" in text


def test_an_observer_may_not_wrap_the_others() -> None:
    @hookimpl(wrapper=True)
    def sendledger_observed() -> Iterator[None]:
        yield

    assert "may not be wrapped" in refusal_of_module(sendledger_observed=sendledger_observed)


def test_a_wrapper_must_be_of_the_new_kind() -> None:
    @hookimpl(hookwrapper=True)
    def sendledger_classify() -> Iterator[None]:
        yield

    text = refusal_of_module(sendledger_classify=sendledger_classify)

    assert "uses hookwrapper=True; write wrapper=True" in text


def test_a_wrapper_must_yield() -> None:
    @hookimpl(wrapper=True)
    def sendledger_classify() -> None: ...

    text = refusal_of_module(sendledger_classify=sendledger_classify)

    assert "is marked as a wrapper and must yield once" in text


def test_one_plugin_answers_a_hook_once() -> None:
    @hookimpl
    def sendledger_classify() -> None: ...

    @hookimpl(specname="sendledger_classify")
    def another() -> None: ...

    text = refusal_of_module(sendledger_classify=sendledger_classify, another=another)

    assert text == 'sendledger_classify of "acme" is implemented twice'


def test_only_a_channel_hands_over() -> None:
    @hookimpl
    async def sendledger_submit() -> None: ...

    text = refusal_of_module(sendledger_submit=sendledger_submit)

    assert "belongs to a channel, not to its module" in text
