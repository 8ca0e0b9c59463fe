"""The way results take into the ledger: by group commit, patiently while the database is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from sendledger.journal.advance import Advance, Entry
from sendledger.journal.group import GroupCommit
from sendledger.journal.record import Recorder
from sendledger.ledger.findings import Finding
from sendledger.ledger.words import Outcome
from sendledger.logs import get_logger
from sendledger.metrics.meters import Meters
from sendledger.plugin.channel import Observed
from sendledger.plugin.host import PluginHost
from sendledger.store.database import DatabaseAway, DatabaseError
from sendledger.store.ledger_rows import AcceptedRow
from sendledger.work.context import GROUP_MAX, GROUPS_AT_ONCE
from sendledger.work.stopping import Stop
from sendledger.work.telling import Telling, observed_of

_PAUSES_S = (0.05, 0.1, 0.25, 0.5, 1.0)
Answer = TypeVar("Answer")

log = get_logger(__name__)


class Recording:
    """Records results and decisions; whoever waits here knows, when it returns, that it is committed.

    Acceptances are committed *accepted_max* together at most.
    """

    def __init__(
        self,
        recorder: Recorder,
        host: PluginHost,
        stop: Stop,
        meters: Meters,
        *,
        accepted_max: int = GROUP_MAX,
    ) -> None:
        self._recorder = recorder
        self._stop = stop
        self._telling = Telling(host)
        self.accepted = GroupCommit(
            self._commit_accepted,
            group_max=accepted_max,
            at_once=GROUPS_AT_ONCE,
            counted=meters.group("accepted"),
        )
        self.entries = GroupCommit(
            self._commit_entries, group_max=GROUP_MAX, counted=meters.group("recorded")
        )

    async def result(
        self,
        intent_id: int,
        seq: int,
        finding: Finding,
        entry: Callable[[], Entry],
        told: Observed | None = None,
    ) -> None:
        """Record the answer to an attempt that stands at *seq*; *entry* gives its slow path.

        *finding* takes the fast path when it is an acceptance and *seq* is known; 0 says it is not.
        *told* is what observers hear of it there.
        """
        if finding.outcome is Outcome.ACCEPTED and seq:
            row = self._recorder.accepted_row(intent_id, seq + 1, finding)
            if await self.accepted.add(row):
                self._telling.add([told] if told else [])
                return
        await self.entries.add(entry())

    async def run(self) -> None:
        """Commit groups and tell observers, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.accepted.run())
            tasks.create_task(self.entries.run())
            tasks.create_task(self._telling.run())

    async def finish(self) -> None:
        """Wait, for a bounded time, until observers were told of everything."""
        await self._telling.finish()

    async def _commit_accepted(self, rows: Sequence[AcceptedRow]) -> list[bool]:
        """Record a group on the fast path; on a data error all of it takes the slow one."""
        try:
            taken = await self._patiently(lambda: self._recorder.record_accepted(rows))
        except DatabaseError:
            taken = set()
        return [row.intent_id in taken for row in rows]

    async def _commit_entries(self, entries: Sequence[Entry]) -> list[None]:
        """Record a group; on a data error each member alone, so that one bad row stops nobody.

        What the ledger refuses even alone is logged; its attempt stays open, and recovery will call it
        unknown.
        """
        try:
            advances = await self._patiently(lambda: self._recorder.record(entries))
        except DatabaseError:
            advances = await self._singly(entries)
        self.pass_on(advances)
        return [None] * len(entries)

    async def _singly(self, entries: Sequence[Entry]) -> list[Advance]:
        done: list[Advance] = []
        for entry in entries:
            try:
                done += await self._patiently(partial(self._recorder.record, [entry]))
            except DatabaseError:
                log.exception("entry refused by the ledger", intent_id=entry.intent_id)
        return done

    async def _patiently(self, commit: Callable[[], Awaitable[Answer]]) -> Answer:
        """Commit again while the database is away, until a stop has waited long enough for it.

        Every commit here may be repeated harmlessly: an unknown COMMIT is re-read by the repetition
        itself, and what stands already changes nothing.
        """
        tries = 0
        while True:
            try:
                return await commit()
            except DatabaseAway:
                if self._stop.abandoned:
                    raise
                pause = _PAUSES_S[min(tries, len(_PAUSES_S) - 1)]
                log.warning("database away, result kept", tries=tries)
                tries += 1
                await asyncio.sleep(pause)

    def pass_on(self, advances: Sequence[Advance]) -> None:
        """Let observers be told of *advances*."""
        self._telling.add(told for done in advances for told in observed_of(done))
