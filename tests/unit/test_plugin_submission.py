"""A submission always ends in evidence, whatever the plugin does."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from plugins_for_tests.members import ACCEPTED, ENVELOPE, SECRET, Base, port, recorder
from sendledger.plugin import (
    Envelope,
    Evidence,
    Outcome,
    Session,
    hookimpl,
)
from sendledger.plugin.faults import Faults


def evidence_with(**wrong: Any) -> Evidence:
    return dataclasses.replace(ACCEPTED, **wrong)


class Submitting(Base):
    """A channel whose submission does what it is told to."""

    def __init__(self, outcome: Any) -> None:
        super().__init__()
        self._outcome = outcome

    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Any:  # noqa: ARG002
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome


async def test_the_evidence_of_a_submission_is_the_channels() -> None:
    channel = recorder()

    found = await port(channel).submit(channel, ENVELOPE)

    assert found == ACCEPTED
    assert channel.submitted == [ENVELOPE]


@pytest.mark.parametrize(
    "outcome",
    [
        RuntimeError(SECRET),
        SystemExit(SECRET),
        asyncio.CancelledError(),
        None,
        SECRET,
        evidence_with(literal=SECRET),
        evidence_with(reply_code="250"),
        evidence_with(enhanced_code=200),
        evidence_with(provider_reference=12345),
        evidence_with(fault=TimeoutError()),
        evidence_with(retry_after=30),
        evidence_with(facts=None),
    ],
)
async def test_a_submission_that_breaks_its_promise_is_an_unknown_handoff(
    outcome: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = Faults()
    desk = port(Submitting(outcome), faults=faults)

    evidence = await desk.submit(object(), ENVELOPE)

    assert evidence == Evidence(
        stage="submit", fault="plugin-raised", handed_over=True, answered=False
    )
    assert desk.classify(evidence).outcome is Outcome.AMBIGUOUS
    assert faults == {("desk", "sendledger_submit"): 1}
    (line,) = capsys.readouterr().err.splitlines()
    assert "plugin fault" in line
    assert "sendledger_submit" in line
    assert SECRET not in line


async def test_ctrl_c_in_a_submission_stops_the_process() -> None:
    with pytest.raises(KeyboardInterrupt):
        await port(Submitting(KeyboardInterrupt())).submit(object(), ENVELOPE)


async def test_the_cancellation_of_a_submission_is_ours() -> None:
    class Waiting(Base):
        @hookimpl
        async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:  # noqa: ARG002
            entered.set()
            await asyncio.Event().wait()
            raise AssertionError

    entered = asyncio.Event()
    faults = Faults()
    task = asyncio.ensure_future(port(Waiting(), faults=faults).submit(object(), ENVELOPE))
    await entered.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert not faults
