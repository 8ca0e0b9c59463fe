"""Evidence always gets a meaning: deployment, configured rules, channel, default."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import Any

import pytest

from plugins_for_tests.members import ACCEPTED, SECRET, Base, port, recorder
from sendledger.ledger.classification import Rule
from sendledger.plugin import (
    Capabilities,
    Classification,
    Evidence,
    Outcome,
    hookimpl,
)
from sendledger.plugin.faults import Faults


class Judge:
    """A deployment plugin that classifies everything alike."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    @hookimpl
    def sendledger_classify(self, channel: str) -> Any:
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer and Classification(
            rule=f"{self._answer}.{channel}", outcome=Outcome.TRANSIENT
        )


GREYLISTED = Evidence(stage="rcpt", handed_over=False, answered=True, reply_code=451)
TOLD = dataclasses.replace(GREYLISTED, facts={"recorder": "told"})
RULES = [Rule(id="table.451", codes=("451",), outcome=Outcome.PERMANENT)]


def test_deployment_plugins_speak_in_their_order_before_the_rules_and_the_channel() -> None:
    desk = port(recorder(), Judge(None), Judge("one"), Judge("two"))
    desk.set_rules(RULES)

    assert desk.classify(TOLD).rule == "one.desk"


def test_the_configured_rules_speak_before_the_channel() -> None:
    desk = port(recorder(), Judge(None))
    desk.set_rules(RULES)

    assert desk.classify(TOLD).rule == "table.451"


def test_the_channel_speaks_before_the_default() -> None:
    assert port(recorder()).classify(TOLD).rule == "desk.told"


def test_the_default_speaks_last() -> None:
    assert port(recorder()).classify(GREYLISTED).rule == "default.4yz"


@pytest.mark.parametrize("answer", [RuntimeError(SECRET), SystemExit()])
def test_a_judge_that_raises_is_counted_and_passed_over(answer: BaseException) -> None:
    faults = Faults()
    desk = port(recorder(), Judge(answer), Judge("two"), faults=faults)

    assert desk.classify(TOLD).rule == "two.desk"
    assert faults == {("module0", "sendledger_classify"): 1}


def test_a_judge_that_answers_in_its_own_words_is_passed_over() -> None:
    class Wordy:
        @hookimpl
        def sendledger_classify(self) -> Any:
            wrong: Any = "accepted"
            return Classification(rule="mine", outcome=wrong)

    faults = Faults()

    assert port(recorder(), Wordy(), faults=faults).classify(TOLD).rule == "desk.told"
    assert faults == {("module0", "sendledger_classify"): 1}


def test_no_judge_talks_uncertainty_away() -> None:
    unanswered = Evidence(stage="dot", handed_over=True, answered=False, fault="timeout")

    assert port(recorder(), Judge("one")).classify(unanswered).outcome is Outcome.AMBIGUOUS


@pytest.mark.parametrize("arrival", [True, False])
def test_acceptance_is_arrival_only_where_the_channel_declares_it(arrival: bool) -> None:
    class Courier(Base):
        capabilities = Capabilities(
            parts={"text": False}, required_parts=frozenset(), acceptance_is_arrival=arrival
        )

        @hookimpl
        def sendledger_classify(self, channel: str, evidence: Evidence) -> Classification:  # noqa: ARG002
            return Classification(rule="courier.handed", outcome=Outcome.DELIVERED)

    meant = port(Courier()).classify(ACCEPTED)

    assert meant.outcome is (Outcome.DELIVERED if arrival else Outcome.ACCEPTED)
    assert meant.rule == "courier.handed"


def test_a_wrapper_that_raises_leaves_the_configured_rules() -> None:
    class Broken:
        @hookimpl(wrapper=True)
        def sendledger_classify(self) -> Generator[None, Any, Any]:
            yield
            raise RuntimeError(SECRET)

    faults = Faults()
    desk = port(recorder(), Broken(), faults=faults)
    desk.set_rules(RULES)

    assert desk.classify(TOLD).rule == "table.451"
    assert faults == {("module0", "sendledger_classify"): 1}
