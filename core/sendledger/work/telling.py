"""Telling observers: after the commit, in batches, and never at the cost of anybody's work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from sendledger.journal.advance import Advance
from sendledger.ledger.findings import Finding
from sendledger.logs import get_logger
from sendledger.plugin.channel import Observed
from sendledger.plugin.host import PluginHost

WAITING_MAX = 10_000
FINISH_MAX_S = 5.0

log = get_logger(__name__)


class Telling:
    """What is committed and not yet told. Observers that cannot keep up miss some; nothing waits for them."""

    def __init__(self, host: PluginHost) -> None:
        self._host = host
        self._waiting: list[Observed] = []
        self._filled = asyncio.Event()
        self._told = asyncio.Event()
        self._told.set()

    def add(self, observations: Iterable[Observed]) -> None:
        """Let observers be told of *observations*, in a batch with whatever else waits."""
        added = list(observations)
        room = WAITING_MAX - len(self._waiting)
        if len(added) > room:
            log.warning("observers cannot keep up and miss some", count=len(added) - room)
        if added[:room]:
            self._waiting += added[:room]
            self._told.clear()
            self._filled.set()

    async def run(self) -> None:
        """Tell batch after batch, until cancelled."""
        while True:
            await self._filled.wait()
            batch, self._waiting = self._waiting, []
            self._filled.clear()
            await self._host.observed(batch)
            if not self._waiting:
                self._told.set()

    async def finish(self) -> None:
        """Wait until everything is told; observers that take too long miss the rest."""
        try:
            async with asyncio.timeout(FINISH_MAX_S):
                await self._told.wait()
        except TimeoutError:
            log.warning("observers miss the last observations", count=len(self._waiting))


def observed_of(done: Advance) -> list[Observed]:
    """Return what observers are told of an advance."""
    key, channel, status = done.locked.intent_key, done.locked.channel, done.after.status
    return [
        observed(finding, seq=seq, intent_key=key, channel=channel, status=status)
        for seq, finding in done.added
    ]


def observed(
    finding: Finding, *, seq: int, intent_key: bytes, channel: str, status: str
) -> Observed:
    """Return what observers are told of *finding* once it stands at *seq*."""
    return Observed(
        intent_key=intent_key.hex(),
        channel=channel,
        seq=seq,
        attempt_number=finding.attempt,
        source=finding.source,
        outcome=finding.outcome,
        ruling=finding.ruling,
        scope=finding.scope,
        rule=finding.rule,
        status=status,
    )
