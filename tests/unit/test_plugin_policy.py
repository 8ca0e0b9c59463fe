"""The bundled policy denies the suppressed and lets the rest go for a bounded while."""

from __future__ import annotations

from datetime import timedelta

import sendledger_policy
from plugins_for_tests.members import HOUR, NOW, candidate
from sendledger.plugin import Deny, Go, Suppression


def suppression(rule: str, *, age: timedelta = HOUR) -> Suppression:
    return Suppression(scope_key="destination", rule=rule, since=NOW - age)


async def test_a_free_candidate_goes_for_a_minute() -> None:
    verdicts = await sendledger_policy.sendledger_authorize([candidate()])

    assert verdicts == [Go(until=NOW + timedelta(seconds=60))]


async def test_a_go_never_outlives_not_after() -> None:
    soon = NOW + timedelta(seconds=5)

    verdicts = await sendledger_policy.sendledger_authorize(
        [candidate(not_after=soon), candidate(not_after=NOW + HOUR)]
    )

    assert verdicts == [Go(until=soon), Go(until=NOW + timedelta(seconds=60))]


def test_a_suppressed_candidate_is_denied_by_the_rule_that_suppressed_it() -> None:
    assert sendledger_policy.decide(candidate(suppressions=(suppression("smtp.5.1.1"),))) == Deny(
        rule="smtp.5.1.1"
    )


def test_of_several_suppressions_the_oldest_is_named() -> None:
    both = (suppression("new"), suppression("old", age=2 * HOUR))

    assert sendledger_policy.decide(candidate(suppressions=both)) == Deny(rule="old")


def test_a_suppression_without_a_rule_denies_too() -> None:
    assert sendledger_policy.decide(candidate(suppressions=(suppression(""),))) == Deny(
        rule="policy.suppressed"
    )
