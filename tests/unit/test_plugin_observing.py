"""Observers are told alone: one that fails or blocks silences nobody and changes nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from plugins_for_tests import raising_observer
from plugins_for_tests.members import HOUR, OBSERVED
from sendledger.plugin import Observed, hookimpl
from sendledger.plugin.checks import module_member
from sendledger.plugin.faults import Faults
from sendledger.plugin.observing import Observers

SOON = timedelta(milliseconds=20)


class Listener:
    def __init__(self) -> None:
        self.heard: list[Observed] = []
        self.threads: set[int] = set()

    @hookimpl
    def sendledger_observed(self, observations: Sequence[Observed]) -> None:
        self.threads.add(threading.get_ident())
        self.heard.extend(observations)


class Blocked(Listener):
    """An observer that does not listen before it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    @hookimpl
    def sendledger_observed(self, observations: Sequence[Observed]) -> None:
        self.released.wait(30)
        self.heard.extend(observations)


def observers(*plugins: object, faults: Faults, within: timedelta = HOUR) -> Observers:
    members = [module_member(f"observer{n}", plugin) for n, plugin in enumerate(plugins)]
    return Observers(members, faults, within=within)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        await asyncio.sleep(0)


async def test_every_observer_is_told_off_the_loops_thread() -> None:
    one, two, faults = Listener(), Listener(), Faults()

    await observers(one, two, faults=faults).tell([OBSERVED])

    assert one.heard == two.heard == [OBSERVED]
    assert threading.get_ident() not in one.threads | two.threads
    assert not faults


async def test_an_observer_that_raises_is_counted_and_silences_nobody() -> None:
    before, after, faults = Listener(), Listener(), Faults()

    await observers(before, raising_observer, after, faults=faults).tell([OBSERVED])

    assert before.heard == after.heard == [OBSERVED]
    assert faults == {("observer1", "sendledger_observed"): 1}


async def test_an_observer_that_ends_the_process_does_not() -> None:
    class Quitting:
        @hookimpl
        def sendledger_observed(self) -> None:
            raise SystemExit(1)

    faults = Faults()

    await observers(Quitting(), faults=faults).tell([OBSERVED])

    assert faults == {("observer0", "sendledger_observed"): 1}


async def test_an_observer_that_answers_is_at_fault() -> None:
    class Talking:
        @hookimpl
        def sendledger_observed(self) -> Any:
            return "delivered"

    faults = Faults()

    await observers(Talking(), faults=faults).tell([OBSERVED])

    assert faults == {("observer0", "sendledger_observed"): 1}


async def test_an_observer_that_blocks_is_passed_by_until_it_listens_again() -> None:
    blocked, quick, faults = Blocked(), Listener(), Faults()
    told = observers(blocked, quick, faults=faults, within=SOON)

    await told.tell([OBSERVED])  # exceeds its time
    await told.tell([OBSERVED])  # is still busy

    assert quick.heard == [OBSERVED] * 2
    assert faults == {("observer0", "sendledger_observed"): 2}
    assert not blocked.heard

    blocked.released.set()
    await until(lambda: len(blocked.heard) == 1)
    await until(lambda: not told._observers[0]._listening)
    await told.tell([OBSERVED])
    assert blocked.heard == [OBSERVED] * 2


async def test_batches_of_concurrent_loops_are_told_in_turn() -> None:
    listener, faults = Listener(), Faults()
    told = observers(listener, faults=faults)

    await asyncio.gather(*(told.tell([OBSERVED]) for _ in range(20)))

    assert listener.heard == [OBSERVED] * 20
    assert not faults


async def test_an_observer_cannot_change_what_the_next_one_hears() -> None:
    class Emptying:
        @hookimpl
        def sendledger_observed(self, observations: Any) -> None:
            observations.clear()

    listener, faults = Listener(), Faults()

    await observers(Emptying(), listener, faults=faults).tell([OBSERVED])

    assert listener.heard == [OBSERVED]
    assert faults == {("observer0", "sendledger_observed"): 1}
