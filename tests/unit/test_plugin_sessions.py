"""Entering a session gives a session or a refusal; leaving it never disturbs the body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from plugins_for_tests.members import ACCEPTED, SECRET, Base, port, recorder
from sendledger.plugin import (
    Evidence,
    Session,
    SessionRefused,
    hookimpl,
)
from sendledger.plugin.faults import Faults


class Breaking(Base):
    """A channel whose session breaks where it is told to."""

    def __init__(self, *, entering: BaseException | None, leaving: BaseException | None) -> None:
        super().__init__()
        self._entering = entering
        self._leaving = leaving

    @hookimpl
    @asynccontextmanager
    async def sendledger_session(self) -> AsyncIterator[Session]:
        if self._entering:
            raise self._entering
        try:
            yield self
        finally:
            if self._leaving:
                raise self._leaving


@pytest.mark.parametrize("error", [RuntimeError(SECRET), SystemExit(1), asyncio.CancelledError()])
async def test_whatever_breaks_while_entering_is_a_refused_session(error: BaseException) -> None:
    faults = Faults()
    desk = port(Breaking(entering=error, leaving=None), faults=faults)

    with pytest.raises(SessionRefused) as caught:
        await desk.session().__aenter__()

    assert caught.value.evidence == Evidence(
        stage="session", fault="plugin-raised", handed_over=False, answered=False
    )
    assert faults == {("desk", "sendledger_session"): 1}


async def test_a_refused_session_is_an_answer() -> None:
    refusal = SessionRefused(ACCEPTED)
    faults = Faults()

    with pytest.raises(SessionRefused) as caught:
        await port(Breaking(entering=refusal, leaving=None), faults=faults).session().__aenter__()

    assert caught.value is refusal
    assert not faults


async def test_a_session_of_the_wrong_type_is_a_refused_session() -> None:
    class Nothing(Base):
        @hookimpl
        def sendledger_session(self) -> Any:
            return self

    faults = Faults()

    with pytest.raises(SessionRefused):
        await port(Nothing(), faults=faults).session().__aenter__()

    assert faults == {("desk", "sendledger_session"): 1}


async def test_whatever_breaks_while_leaving_is_counted_only() -> None:
    faults = Faults()
    left = False

    async with port(Breaking(entering=None, leaving=RuntimeError(SECRET)), faults=faults).session():
        left = True

    assert left
    assert faults == {("desk", "sendledger_session"): 1}


async def test_leaving_cannot_swallow_what_the_body_raised() -> None:
    class Swallowing(AbstractAsyncContextManager[Session]):
        async def __aenter__(self) -> Session:
            return self

        async def __aexit__(self, *error: object) -> bool:
            return True

    class Swallower(Base):
        @hookimpl
        def sendledger_session(self) -> Any:
            return Swallowing()

    with pytest.raises(LookupError):
        async with port(Swallower()).session():
            raise LookupError


async def test_a_body_that_raises_keeps_its_exception_when_leaving_breaks_too() -> None:
    faults = Faults()

    with pytest.raises(LookupError):
        async with port(Breaking(entering=None, leaving=RuntimeError()), faults=faults).session():
            raise LookupError

    assert faults == {("desk", "sendledger_session"): 1}


async def test_closing_closes_the_channel() -> None:
    channel = recorder()

    await port(channel).aclose()

    assert channel.closed


async def test_what_breaks_while_closing_is_counted_only() -> None:
    class Stuck(Base):
        async def aclose(self) -> None:
            raise RuntimeError(SECRET)

    faults = Faults()

    await port(Stuck(), faults=faults).aclose()

    assert faults == {("desk", "aclose"): 1}
