"""Telling observers after a commit. They cannot change an outcome, and cannot hold anybody up for long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from sendledger.plugin.calls import call_list
from sendledger.plugin.channel import Observed
from sendledger.plugin.checks import Member
from sendledger.plugin.faults import Faults, PluginFault

HOOK = "sendledger_observed"


class Observers:
    """The observers among the plugins, each told alone in a thread of its own.

    One that raises, or takes longer than *within*, is counted. While it is still busy it is not told of
    the next batches, each of which is counted too, so that a blocked observer costs one thread.
    """

    def __init__(self, members: Sequence[Member], faults: Faults, *, within: timedelta) -> None:
        self._observers = [_Observer(member) for member in members if HOOK in member.hooks]
        self._faults = faults
        self._within = within

    @property
    def any(self) -> bool:
        """Whether there is an observer."""
        return bool(self._observers)

    async def tell(self, observations: Sequence[Observed]) -> None:
        """Tell all of *observations*; returns once each has listened or its time is up."""
        told = tuple(observations)
        await asyncio.gather(*(self._tell(observer, told) for observer in self._observers))

    async def _tell(self, observer: _Observer, observations: tuple[Observed, ...]) -> None:
        try:
            async with asyncio.timeout(self._within.total_seconds()):
                await observer.tell(observations)
        except TimeoutError:
            reason = f"took longer than {self._within.total_seconds():g} s"
            self._faults.record(PluginFault(reason, plugin=observer.name, hook=HOOK))
        except PluginFault as fault:
            self._faults.record(fault)


class _Observer:
    def __init__(self, member: Member) -> None:
        self.name = member.name
        self._call = call_list(HOOK, [member])
        self._turn = asyncio.Lock()
        self._listening = False

    async def tell(self, observations: tuple[Observed, ...]) -> None:
        # The lock keeps batches of concurrent loops in turn; whoever gave up waiting has released it.
        async with self._turn:
            if self._listening:
                raise PluginFault(
                    "is still busy with an earlier batch", plugin=self.name, hook=HOOK
                )
            self._listening = True
            await self._start(observations)

    def _start(self, observations: tuple[Observed, ...]) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def listen() -> None:
            error: BaseException | None = None
            try:
                self._call(observations=observations)
            except BaseException as raised:  # noqa: BLE001 - carried over to the loop
                error = raised
            with suppress(RuntimeError):  # the loop may be gone by now, and nobody asks any more
                loop.call_soon_threadsafe(self._finish, done, error)

        # A daemon: an executor's thread would be waited for at exit, and a blocked observer never ends.
        threading.Thread(target=listen, name=f"observer {self.name}", daemon=True).start()
        return done

    def _finish(self, done: asyncio.Future[None], error: BaseException | None) -> None:
        self._listening = False
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
