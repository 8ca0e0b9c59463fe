"""Planning: intents and their deliveries, each once, inside the caller's transaction.

What is planned already is compared, never replaced: the same again adds nothing, anything else under
the same key is a conflict.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

from sendledger.journal.batch import BatchFault, Entry, Reject
from sendledger.journal.beside import Beside
from sendledger.journal.conflicts import (
    Conflict,
    Conflicts,
    PlanConflict,
    header_conflicts,
    intent_conflicts,
    mapping_conflicts,
    repeat_conflicts,
)
from sendledger.journal.intake import Intake
from sendledger.journal.met import Met
from sendledger.store import planning
from sendledger.store.listening import notify_work
from sendledger.store.new_intents import NewIntent
from sendledger.store.planning import (
    BatchRow,
    NewBatch,
    PlanningConnection,
    PlanningStart,
)

CHUNK_ROWS = 5_000
TURN_ROWS = 50
"""After so many rows others get a turn: the database's answers, and the rest of an application."""

Item = TypeVar("Item")
Entries = Iterable[Entry] | AsyncIterable[Entry]
Blocks = AsyncIterable[Sequence[Entry]]
OnReject = Callable[[Reject], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Intents to store: those that are surely new, and, each with its line, those to be looked up first."""

    new: Sequence[NewIntent]
    doubtful: Mapping[bytes, tuple[int, NewIntent]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """How many recipients were added, known from before, repeated in this very plan, and rejected."""

    added: int
    known: int
    repeated: int
    rejected: int


async def plan(
    connection: PlanningConnection, intake: Intake, entries: Entries, *, on_reject: OnReject
) -> PlanResult:
    """Plan every row of *entries* that can be planned; the rest goes to *on_reject*, in order.

    Everything or nothing, in the caller's transaction, which decides whether any of it happened; others
    who plan the same batch wait for its end, and workers hear of new work with it. Memory is bounded by
    a chunk of rows of each kind. Without a plannable row nothing is stored, not even the batch. *entries*
    may use the connection. Raises :class:`PlanConflict`, :class:`BatchFault`, ``PluginFault``, and whatever
    *entries* raises.
    """
    async with planning.whole(connection):
        run = await _begin(connection, intake, on_reject)
        async for block in in_blocks(entries):
            run.take(block)
            # Never beside what comes next, which may be asked of a connection in the middle of a COPY.
            if run.full:
                await run.keep(run.cut())
            await asyncio.sleep(0)
        await run.keep(run.cut(last=True))
        return await run.end()


async def plan_blocks(
    connection: PlanningConnection, intake: Intake, blocks: Blocks, *, on_reject: OnReject
) -> PlanResult:
    """Plan as :func:`plan` does, while *blocks*, which must not use the connection, are read on.

    Memory is bounded by two chunks of rows of each kind and a block.
    """
    async with planning.whole(connection):
        run = await _begin(connection, intake, on_reject)
        # One chunk is stored while the next is read: Postgres and Python have a core each.
        async with Beside() as storing:
            async for block in blocks:
                for first in range(0, len(block), TURN_ROWS):
                    run.take(block[first : first + TURN_ROWS])
                    await storing.turn()
                    if run.full:
                        await storing.start(run.keep, run.cut())
            await storing.start(run.keep, run.cut(last=True))
        return await run.end()


async def each(items: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterator[Item]:
    """Yield *items*, however they are to be asked for."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


async def singly(blocks: Blocks) -> AsyncIterator[Entry]:
    """Yield the entries of *blocks*."""
    async for block in blocks:
        for entry in block:
            yield entry


async def in_blocks(entries: Entries) -> AsyncIterator[Sequence[Entry]]:
    """Yield *entries*, some at a time."""
    block: list[Entry] = []
    async for entry in each(entries):
        block.append(entry)
        if len(block) == TURN_ROWS:
            yield block
            block = []
    yield block


async def _begin(connection: PlanningConnection, intake: Intake, on_reject: OnReject) -> _Run:
    await planning.hold_planning(connection, _planning_lock(intake.header(content_id=0)))
    start = await planning.read_start(connection)
    not_after = intake.batch.not_after
    if not_after is not None and not_after <= start.now:
        raise BatchFault(("not_after",), "has passed; nothing could be sent any more")
    run = _Run(connection, intake, on_reject, start)
    await run.find_batch()
    return run


def _planning_lock(batch: NewBatch) -> int:
    """Return the number that all who plan *batch* lock. Another batch may share it: that costs a wait."""
    label = f"{batch.report}\0{batch.channel}\0{batch.content_revision}"
    return int.from_bytes(sha256(label.encode()).digest()[:8], "big", signed=True)


class _Run:
    """One run of :func:`plan`: ``take`` fills the chunk, ``keep`` stores one that was cut off.

    In a batch that this run creates every intent is its own, so only what it may have met before is looked
    up; in one that was there, all are.
    """

    def __init__(
        self,
        connection: PlanningConnection,
        intake: Intake,
        on_reject: OnReject,
        start: PlanningStart,
    ) -> None:
        self._new: list[NewIntent] = []
        self._doubtful: dict[bytes, tuple[int, NewIntent]] = {}
        self._met: Met | None = None
        self._connection = connection
        self._intake = intake
        self._on_reject = on_reject
        self._start = start
        self._batch: BatchRow | None = None
        self._conflicts = Conflicts()
        self._added = self._known = self._repeated = self._rejected = 0

    async def find_batch(self) -> None:
        """Find the batch if it was planned before; one with another header is a conflict."""
        given = self._intake.header(content_id=0)
        self._batch = await planning.find_batch(
            self._connection, given.report, given.channel, given.content_revision
        )
        if self._batch is None:
            self._met = Met()
        else:
            await self._compare_header(self._batch)

    @property
    def full(self) -> bool:
        """Whether it is time to :meth:`cut`."""
        return len(self._new) >= CHUNK_ROWS or len(self._doubtful) >= CHUNK_ROWS

    def take(self, entries: Sequence[Entry]) -> None:
        """Put the intents of *entries* into the chunk, or reject them."""
        met, new = self._met, self._new
        for entry, found in zip(entries, self._intake.read_all(entries), strict=True):
            if isinstance(found, Reject):
                self._rejected += 1
                self._on_reject(found)
            elif met is not None and met.add(found.intent_key):
                new.append(found)
            else:
                self._doubt(entry.line, found)

    def cut(self, *, last: bool = False) -> Chunk:
        """Return the chunk, and begin another. What is doubtful stays for a full one, or for the *last*.

        What it may repeat is stored by then: in an earlier chunk, or first of all in this one.
        """
        new, doubtful = self._new, self._doubtful
        self._new = []
        if not last and len(doubtful) < CHUNK_ROWS:
            return Chunk(new=new, doubtful={})
        self._doubtful = {}
        return Chunk(new=new, doubtful=doubtful)

    async def keep(self, chunk: Chunk) -> None:
        """Store what is new in *chunk*, and compare the rest with what was there before."""
        if chunk.new:
            await self._add(chunk.new, all_new=True)
        if not (doubtful := chunk.doubtful):
            return
        added = await self._add([intent for _, intent in doubtful.values()])
        if len(added) < len(doubtful):
            await self._compare({key: doubtful[key] for key in doubtful if key not in added})

    async def end(self) -> PlanResult:
        """Return the counts. Raises :class:`PlanConflict` when a row differed from what was planned."""
        self._conflicts.raise_any()
        if self._added:
            await notify_work(self._connection, self._intake.batch.channel)
        return PlanResult(
            added=self._added,
            known=self._known,
            repeated=self._repeated,
            rejected=self._rejected,
        )

    def _doubt(self, line: int, intent: NewIntent) -> None:
        _, first = self._doubtful.setdefault(intent.intent_key, (line, intent))
        if first is not intent:
            self._repeated += 1
            self._conflicts.add(line, repeat_conflicts(first, intent))

    async def _add(self, intents: Sequence[NewIntent], *, all_new: bool = False) -> set[bytes]:
        batch = self._intake.batch
        added = await planning.add_intents(
            self._connection,
            self._batch or await self._keep_batch(),
            intents,
            eligible_at=batch.not_before or self._start.planned_at,
            not_after=batch.not_after,
            all_new=all_new,
        )
        self._added += len(added)
        return added

    async def _keep_batch(self) -> BatchRow:
        batch = self._intake.batch
        content_id = await planning.keep_content(
            self._connection,
            template_revision=self._intake.template_revision,
            parts=batch.parts,
            settings=batch.settings,
            authored=self._intake.authored,
        )
        self._batch = await planning.keep_batch(self._connection, self._intake.header(content_id))
        return self._batch

    async def _compare_header(self, stored: BatchRow) -> None:
        given = self._intake.header(stored.content_id)
        fields = [*header_conflicts(stored, given), *await self._content_conflicts(stored)]
        if fields:
            raise PlanConflict(Conflict(field=field) for field in fields)

    async def _content_conflicts(self, stored: BatchRow) -> list[str]:
        content = await planning.load_content(self._connection, stored.content_id)
        if content.template_revision == self._intake.template_revision:
            return []
        batch = self._intake.batch
        return [
            *mapping_conflicts("content.", content.parts, batch.parts),
            *mapping_conflicts("content.settings.", content.settings, batch.settings),
        ]

    async def _compare(self, given: Mapping[bytes, tuple[int, NewIntent]]) -> None:
        stored = await planning.load_planned(self._connection, list(given), start=self._start)
        for key, (line, intent) in given.items():
            found = stored[key]
            self._repeated += found.fresh
            self._known += not found.fresh
            self._conflicts.add(line, intent_conflicts(found, intent, self._intake.batch))
