"""The strictest verdict wins, and a broken policy never lets anything go."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from plugins_for_tests import liar
from plugins_for_tests.members import HOUR, NOW, SECRET, candidates
from sendledger.plugin import Candidate, Deny, Go, Hold, Verdict, Wait, hookimpl
from sendledger.plugin.authorization import Authorization, stricter
from sendledger.plugin.checks import module_member
from sendledger.plugin.faults import Faults

GO = Go(until=NOW + HOUR)
WAIT = Wait(until=NOW + HOUR, rule="quiet-hours")
HOLD = Hold(rule="consent.unknown", cause="import")
DENY = Deny(rule="policy.suppressed")


class Policy:
    """A policy that gives the same verdicts to whoever asks, or raises."""

    def __init__(self, *verdicts: Verdict, instead: Any = None) -> None:
        self._verdicts = verdicts
        self._instead = instead

    @hookimpl
    async def sendledger_authorize(self, candidates: Sequence[Candidate]) -> Any:  # noqa: ARG002
        if isinstance(self._instead, BaseException):
            raise self._instead
        return self._instead or self._verdicts


class Deaf:
    """A policy that never answers."""

    @hookimpl
    async def sendledger_authorize(self) -> Sequence[Verdict]:
        await asyncio.Event().wait()
        raise AssertionError


def authorization(
    *policies: object, faults: Faults | None = None, within: timedelta = HOUR
) -> Authorization:
    members = [module_member(f"policy{n}", policy) for n, policy in enumerate(policies)]
    return Authorization(
        members,
        Faults() if faults is None else faults,
        within=within,
        go_for=timedelta(minutes=1),
    )


async def test_without_a_policy_everything_goes_for_a_minute() -> None:
    verdicts = await authorization().ask(candidates(2))

    assert verdicts == [Go(until=NOW + timedelta(minutes=1))] * 2


async def test_verdicts_keep_the_order_of_their_candidates() -> None:
    assert await authorization(Policy(GO, WAIT, DENY)).ask(candidates(3)) == [GO, WAIT, DENY]


async def test_the_strictest_of_all_policies_wins_for_each_candidate_alone() -> None:
    verdicts = await authorization(Policy(GO, DENY, WAIT), Policy(GO, HOLD, HOLD)).ask(
        candidates(3)
    )

    assert verdicts == [GO, DENY, HOLD]


@pytest.mark.parametrize(
    ("lenient", "strict"), list(itertools.combinations([GO, WAIT, HOLD, DENY], 2))
)
def test_the_order_is_go_wait_hold_deny_whoever_says_it(lenient: Verdict, strict: Verdict) -> None:
    assert stricter(lenient, strict) is strict
    assert stricter(strict, lenient) is strict


def test_of_two_goes_the_earlier_end_counts() -> None:
    sooner = Go(until=NOW)

    assert stricter(GO, sooner) is sooner
    assert stricter(sooner, GO) is sooner


def test_of_two_waits_the_later_end_counts() -> None:
    longer = Wait(until=NOW + 2 * HOUR, rule="cap")

    assert stricter(WAIT, longer) is longer
    assert stricter(longer, WAIT) is longer


async def test_nobody_is_asked_about_nothing() -> None:
    assert await authorization(Deaf()).ask([]) == []


@pytest.mark.parametrize(
    "instead",
    [
        RuntimeError(SECRET),
        SystemExit(0),
        asyncio.CancelledError(),
        [GO],
        [GO, GO, GO],
        [GO, True],
        [GO, Go(until=NOW.replace(tzinfo=None))],
        "go",
        {0: GO, 1: GO},
    ],
)
async def test_a_failing_policy_holds_all_candidates_and_is_counted(instead: Any) -> None:
    faults = Faults()

    verdicts = await authorization(Policy(instead=instead), faults=faults).ask(candidates(2))

    assert verdicts == [Hold(rule="policy.failing", cause="policy0")] * 2
    assert faults == {("policy0", "sendledger_authorize"): 1}


async def test_a_liar_among_policies_overrules_every_go_but_no_denial() -> None:
    verdicts = await authorization(Policy(GO, DENY), liar).ask(candidates(2))

    assert verdicts == [Hold(rule="policy.failing", cause="policy1"), DENY]


async def test_a_policy_that_is_late_holds_all_candidates() -> None:
    faults = Faults()
    asked = authorization(Deaf(), faults=faults, within=timedelta(milliseconds=1))

    assert await asked.ask(candidates(1)) == [Hold(rule="policy.failing", cause="policy0")]
    assert faults == {("policy0", "sendledger_authorize"): 1}


async def test_a_policy_that_blocks_the_loop_is_late_too() -> None:
    """While it blocks, no time limit can strike; its go comes too late all the same."""
    within = timedelta(milliseconds=1)

    class Blocking:
        @hookimpl
        async def sendledger_authorize(self) -> Sequence[Verdict]:
            time.sleep(10 * within.total_seconds())  # noqa: ASYNC251 - the fault itself
            return [GO]

    faults = Faults()
    asked = authorization(Blocking(), faults=faults, within=within)

    assert await asked.ask(candidates(1)) == [Hold(rule="policy.failing", cause="policy0")]
    assert faults == {("policy0", "sendledger_authorize"): 1}


async def test_the_cancellation_of_an_authorization_is_ours() -> None:
    faults = Faults()
    entered = asyncio.Event()

    class Waiting:
        @hookimpl
        async def sendledger_authorize(self) -> Sequence[Verdict]:
            entered.set()
            await asyncio.Event().wait()
            raise AssertionError

    task = asyncio.ensure_future(authorization(Waiting(), faults=faults).ask(candidates(1)))
    await entered.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert not faults


async def test_a_policy_cannot_change_what_the_next_one_sees() -> None:
    class Emptying:
        @hookimpl
        async def sendledger_authorize(self, candidates: Any) -> Any:
            candidates.clear()

    asked = candidates(2)

    await authorization(Emptying(), Policy(GO, GO)).ask(asked)

    assert len(asked) == 2
