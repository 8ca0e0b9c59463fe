"""Sessions: lent ready, bounded in number, never trusted once they broke, and closed without a trace."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack

import pytest

from sendledger.ledger.evidence import Evidence
from sendledger.ledger.words import Outcome
from sendledger.plugin.channel import SessionRefused
from sendledger.plugin.conformance.bench import HURRIED, Bench, bench, bounded, soon, until
from sendledger.plugin.conformance.rig import ChannelRig, Reaction

DROPS = 50
TURNS = 3
"""How many more sessions are asked for than are lent at once."""

BREAKING = (
    Reaction.CLOSE_EARLY,
    Reaction.LOSE_ANSWER,
    Reaction.GARBLE_ANSWER,
    Reaction.STALL,
)
ARRIVED = {Outcome.ACCEPTED, Outcome.DELIVERED}


class SessionChecks:
    """``sendledger_session`` lends what can be used, or refuses with evidence."""

    @bounded
    async def test_an_unreachable_peer_is_a_refused_session(self, rig: ChannelRig) -> None:
        """Nothing is handed over and nothing answered, so nothing is spent and nothing in doubt."""
        async with bench(rig) as on:
            await on.peer.leave()
            evidence = await _refusal(on)
            assert (evidence.handed_over, evidence.answered) == (False, False)
            assert evidence.fault, "a broken step has a word"
            assert evidence.reply_code is None
            assert on.port.classify(evidence).outcome is Outcome.TRANSIENT

    @bounded
    async def test_a_peer_that_comes_back_is_found_again(self, rig: ChannelRig) -> None:
        """No session outlives its connection, and none is refused for what is over."""
        async with bench(rig) as on:
            await _assert_accepted(on)
            await on.peer.leave()
            await _refusal(on)
            await on.peer.come_back()
            await _assert_accepted(on)

    @bounded
    async def test_a_connection_lost_while_idle_leaves_nothing_in_doubt(
        self, rig: ChannelRig
    ) -> None:
        """A kept session is looked at before it is lent; what it lost, it lost before the handoff."""
        async with bench(rig) as on:
            await _assert_accepted(on)
            await on.peer.leave()
            await on.peer.come_back()
            evidence = await on.hand_over()
            assert evidence.answered or not evidence.handed_over, "a dead session was handed to"
            await _assert_accepted(on)

    @bounded
    async def test_no_more_sessions_are_open_than_it_says(self, rig: ChannelRig) -> None:
        """Its limit holds, everybody gets a turn, and no lent session has two connections."""
        async with bench(rig) as on:
            room = rig.sessions_max or TURNS
            lent, most = 0, 0

            async def borrow(number: int) -> None:
                nonlocal lent, most
                async with on.port.session() as session:
                    lent += 1
                    most = max(most, lent, on.peer.connections)
                    evidence = await on.submit(session, number)
                    assert on.port.classify(evidence).outcome in ARRIVED
                    most = max(most, on.peer.connections)
                    lent -= 1

            asked = room + TURNS if rig.sessions_max else room
            await asyncio.gather(*(borrow(number) for number in range(asked)))
            assert most <= room, "more sessions are open than the channel says"

    @bounded
    async def test_waiting_in_vain_takes_no_place(self, rig: ChannelRig) -> None:
        """Whoever gives up waiting for a session leaves as many for the others as before."""
        async with bench(rig) as on:
            if rig.sessions_max is None:
                pytest.skip("the channel has no limit of its own")
            async with AsyncExitStack() as held:
                await _borrow(on, held, rig.sessions_max)
                waiting = asyncio.create_task(on.hand_over())
                done, _ = await asyncio.wait([waiting], timeout=HURRIED.total_seconds())
                assert not done, "one more session is lent than the channel says"
                waiting.cancel()
                await asyncio.wait([waiting])
            async with AsyncExitStack() as held:
                await _borrow(on, held, rig.sessions_max)

    @pytest.mark.parametrize("reaction", BREAKING)
    @bounded
    async def test_a_broken_session_is_not_used_again(
        self, rig: ChannelRig, reaction: Reaction
    ) -> None:
        """A late answer to one message would be taken for the answer to the next."""
        async with bench(rig, answer_within=HURRIED) as on:
            on.play(reaction)
            await on.hand_over()
            broken = {taken.connection for taken in on.peer.taken}
            on.play(Reaction.ACCEPT)
            await _assert_accepted(on)
            assert on.peer.taken[-1].connection not in broken, "a broken connection is used again"

    @bounded
    async def test_dropped_connections_leave_nothing_behind(self, rig: ChannelRig) -> None:
        """After fifty forced drops as many files are open as before the first."""
        async with bench(rig) as on:
            await _assert_accepted(on)
            before = _open_files()
            on.play(Reaction.LOSE_ANSWER)
            for _ in range(DROPS):
                await on.hand_over()
            on.play(Reaction.ACCEPT)
            await _assert_accepted(on)
            await until(
                lambda: _open_files() <= before, f"{DROPS} drops left connections or files open"
            )

    @bounded
    async def test_closing_ends_everything_and_may_be_said_twice(self, rig: ChannelRig) -> None:
        """Within a bounded time no connection and no task is left, whatever was idle or lent."""
        async with bench(rig) as on:
            await _assert_accepted(on)
            async with on.port.session():
                await soon(on.host.aclose(), "aclose does not end soon")
            await soon(on.host.aclose(), "aclose does not end soon")
            await until(lambda: on.peer.connections == 0, "a connection outlives aclose")
            await on.peer.leave()
            await until(_alone, "a task outlives aclose")


async def _refusal(on: Bench) -> Evidence:
    with pytest.raises(SessionRefused) as refused:
        async with on.port.session():
            pass
    return refused.value.evidence


async def _assert_accepted(on: Bench) -> None:
    evidence = await on.hand_over()
    assert on.port.classify(evidence).outcome in ARRIVED, "a willing peer was not reached"


async def _borrow(on: Bench, held: AsyncExitStack, count: int) -> None:
    for _ in range(count):
        lent = held.enter_async_context(on.port.session())
        await soon(lent, "a session that was given back is not lent again")


def _alone() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


def _open_files() -> int:
    return len(os.listdir("/dev/fd"))  # noqa: PTH208 - a directory of the kernel's
