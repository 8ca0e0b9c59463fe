"""Receipts and look-ups at the port: who must answer, what may come back, and what it can mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from plugins_for_tests.everything import Everything
from plugins_for_tests.members import ASKED, CALLBACK, SECRET, port, recorder
from plugins_for_tests.recorder import Recorder, RecorderSettings
from sendledger.plugin import (
    Asked,
    CallbackRefused,
    CallbackRequest,
    Classification,
    Evidence,
    Found,
    Outcome,
    Receipt,
    Receipts,
    Scope,
    hookimpl,
)
from sendledger.plugin.faults import Faults, PluginFault

SAID = Evidence(stage="receipt", handed_over=True, answered=True)
NO_BYTES: Any = "text"


def receipt(**changes: Any) -> Any:
    return Receipt(**{"identity": "event-1", "evidence": SAID, **changes})


class Offering(Everything):
    """Answers what a test wants; ``receipts`` and ``found`` are what the hooks give."""

    def __init__(self, receipts: Any = (), found: Any = ()) -> None:
        super().__init__(RecorderSettings())
        self.receipts, self.found = receipts, found

    @hookimpl
    def sendledger_read_callback(self, request: CallbackRequest) -> Any:  # noqa: ARG002
        if isinstance(self.receipts, Exception):
            raise self.receipts
        return self.receipts

    @hookimpl
    async def sendledger_look_up(self, attempts: Sequence[Asked]) -> Any:  # noqa: ARG002
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    @hookimpl
    def sendledger_classify(
        self,
        channel: str,  # noqa: ARG002
        evidence: Evidence,
    ) -> Classification | None:
        word = evidence.facts.get("means")
        scope = Scope(evidence.facts.get("scope", "recipient"))
        return (
            Classification(rule="desk.word", outcome=Outcome(word), scope=scope) if word else None
        )


# --- who must answer -----------------------------------------------------------------------------


def test_a_channel_that_offers_neither_leaves_both_hooks_out() -> None:
    assert not port(recorder()).reads_callbacks


@pytest.mark.parametrize(
    ("offer", "hook"),
    [
        ({"receipts": Receipts.FAILURES}, "sendledger_read_callback"),
        ({"receipts": Receipts.DELIVERED}, "sendledger_read_callback"),
        ({"look_up": True}, "sendledger_look_up"),
    ],
)
def test_what_is_offered_without_its_hook_stops_the_start(offer: dict[str, Any], hook: str) -> None:
    class Boaster(Recorder):
        capabilities = dataclasses.replace(Recorder.capabilities, **offer)

    with pytest.raises(PluginFault, match=f"declares what {hook} is for and lacks it"):
        port(Boaster(RecorderSettings()))


def test_no_module_may_look_up_in_the_place_of_a_channel() -> None:
    class Module:
        @staticmethod
        @hookimpl
        async def sendledger_look_up(attempts: Sequence[Asked]) -> Sequence[Found]:
            return [Found() for _ in attempts]

    with pytest.raises(PluginFault, match="belongs to a channel"):
        port(Offering(), Module)


# --- what may come back --------------------------------------------------------------------------


def test_receipts_are_given_as_they_were_read() -> None:
    assert port(Offering([receipt()])).read_callback(CALLBACK) == [receipt()]
    assert port(Offering(())).read_callback(CALLBACK) == ()


def test_a_refusal_passes_with_its_reason_and_is_no_fault() -> None:
    faults = Faults()
    desk = port(Offering(CallbackRefused("signature")), faults=faults)
    with pytest.raises(CallbackRefused) as refused:
        desk.read_callback(CALLBACK)
    assert (refused.value.reason, refused.value.status) == ("signature", 403)
    assert not faults


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "delivered",
        [SAID],
        [receipt(identity="")],
        [receipt(identity=7)],
        [receipt(evidence=None)],
        [receipt(evidence=dataclasses.replace(SAID, literal=NO_BYTES))],
        [receipt(occurred_at=datetime(2026, 3, 2))],  # noqa: DTZ001 - that is what is refused
        ValueError(SECRET),
    ],
)
def test_a_wrong_answer_is_a_fault_that_shows_no_value(answer: Any) -> None:
    with pytest.raises(PluginFault, match="sendledger_read_callback") as fault:
        port(Offering(answer)).read_callback(CALLBACK)
    assert SECRET not in str(fault.value)


@pytest.mark.parametrize(
    "answer",
    [None, [], [Found(), Found()], ["none"], [Found(receipts=[SAID])], OSError(SECRET)],  # type: ignore[arg-type]
)
async def test_a_look_up_that_fails_says_nothing_of_anybody(answer: Any) -> None:
    faults = Faults()
    [found] = await port(Offering(found=answer), faults=faults).look_up([ASKED])
    assert found.failed
    assert found.receipts == ()
    assert faults["desk", "sendledger_look_up"] == 1


async def test_a_look_up_gives_one_answer_for_each_attempt_in_their_order() -> None:
    answers = [Found(receipts=(receipt(),)), Found()]
    assert await port(Offering(found=answers)).look_up([ASKED, ASKED]) == answers


# --- what it can mean ----------------------------------------------------------------------------


def meaning(said: str | None, **facts: str) -> Evidence:
    return dataclasses.replace(SAID, facts={"means": said, **facts} if said else {})


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("accepted", Outcome.ACCEPTED),
        ("ambiguous", Outcome.ACCEPTED),
        ("transient", Outcome.TRANSIENT),
        ("permanent", Outcome.PERMANENT),
        ("delivered", Outcome.DELIVERED),
    ],
)
def test_a_receipt_means_what_its_rule_says_and_never_less_than_an_acceptance(
    said: str, outcome: Outcome
) -> None:
    found = port(Offering()).classify_later(meaning(said))
    assert (found.outcome, found.rule) == (outcome, "desk.word")


def test_a_receipt_that_no_rule_knows_is_an_acceptance_by_name() -> None:
    found = port(Offering()).classify_later(meaning(None))
    assert (found.outcome, found.rule) == (Outcome.ACCEPTED, "receipt.unmapped")


def test_arrival_is_believed_only_where_receipts_can_tell_of_it() -> None:
    class Partial(Offering):
        capabilities = dataclasses.replace(Offering.capabilities, receipts=Receipts.FAILURES)

    assert port(Partial()).classify_later(meaning("delivered")).outcome is Outcome.ACCEPTED


def test_the_answer_to_a_submission_is_still_no_arrival() -> None:
    said = dataclasses.replace(meaning("delivered"), reply_code=201)
    assert port(Offering()).classify(said).outcome is Outcome.ACCEPTED
