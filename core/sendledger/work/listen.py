"""The listener: wakes dispatch when work is planned, and comes back by itself when it is cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from datetime import timedelta

from sendledger.logs import get_logger
from sendledger.store.database import DatabaseAway, DatabaseRefused
from sendledger.store.listening import hear_work

EVERY = timedelta(seconds=15)
_AGAIN_S = (0.2, 1.0, 5.0)

log = get_logger(__name__)


class Listener:
    """Whether we listen is only a matter of speed: ``listening`` is shown, nothing depends on it."""

    def __init__(
        self, dsn: str, wake: Mapping[str, Callable[[], None]], chance: Callable[[], float]
    ) -> None:
        self._dsn, self._wake, self._chance = dsn, wake, chance
        self.listening = False
        self._refused = False

    @property
    def hears(self) -> bool | None:
        """As ``listening``; None once a pooler was found in the way."""
        return None if self._refused else self.listening

    async def run(self) -> None:
        """Listen until cancelled; after each (re)connection everyone looks for what was missed.

        Ends by itself where a pooler is in the way.
        """
        tries = 0
        while True:
            try:
                await self._listen()
            except DatabaseRefused as refused:
                log.warning("not listening, polling goes on", reason=str(refused))
                self._refused = True
                return
            except DatabaseAway:
                pass
            tries = 1 if self.listening else tries + 1
            self.listening = False
            log.warning("not listening, polling goes on", tries=tries)
            await asyncio.sleep(_AGAIN_S[min(tries, len(_AGAIN_S)) - 1] * (1 + self._chance()))

    async def _listen(self) -> None:
        async with aclosing(hear_work(self._dsn, every=EVERY)) as heard:
            async for channel in heard:
                if channel is not None:
                    self._wake.get(channel, _nobody)()
                elif not self.listening:
                    self.listening = True
                    log.info("listening")
                    self._wake_all()

    def _wake_all(self) -> None:
        for wake in self._wake.values():
            wake()


def _nobody() -> None:
    """Hear of a channel that this worker does not work."""
