"""Planning: intents and their deliveries, each once, inside the caller's transaction.

What is planned already is compared, never replaced: the same again adds nothing, anything else under
the same key is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sendledger.journal.conflicts import (
    Conflict,
    Conflicts,
    PlanConflict,
    header_conflicts,
    intent_conflicts,
    mapping_conflicts,
    repeat_conflicts,
)
from sendledger.journal.intake import Intake, Reject, Row
from sendledger.store import planning
from sendledger.store.database import Connection
from sendledger.store.listening import notify_work
from sendledger.store.planning import BatchRow, NewIntent

CHUNK_ROWS = 5_000

Entry = Row | Reject


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """How many recipients were added, known from before, repeated in this very plan, and rejected."""

    added: int
    known: int
    repeated: int
    rejected: int


async def plan(
    connection: Connection,
    intake: Intake,
    entries: Iterable[Entry],
    *,
    on_reject: Callable[[Reject], None],
) -> PlanResult:
    """Plan every row of *entries* that can be planned; the rest goes to *on_reject*, in order.

    *connection* is in the caller's transaction, which decides whether any of it happened. Memory is
    bounded by a chunk of rows. Without a plannable row nothing is stored, not even the batch.
    Raises :class:`PlanConflict`, ``PluginFault``, and whatever *entries* raises.
    """
    run = _Run(connection, intake, on_reject)
    await run.find_batch()
    for entry in entries:
        run.take(entry)
        if len(run.chunk) >= CHUNK_ROWS:
            await run.keep_chunk()
    await run.keep_chunk()
    return run.result()


class _Run:
    """One run of :func:`plan`; the chunk holds rows by intent key, each with its line."""

    def __init__(
        self, connection: Connection, intake: Intake, on_reject: Callable[[Reject], None]
    ) -> None:
        self.chunk: dict[bytes, tuple[int, NewIntent]] = {}
        self._connection = connection
        self._intake = intake
        self._on_reject = on_reject
        self._batch: BatchRow | None = None
        self._conflicts = Conflicts()
        self._added = self._known = self._repeated = self._rejected = 0

    async def find_batch(self) -> None:
        """Find the batch if it was planned before; one with another header is a conflict."""
        given = self._intake.header(content_id=0)
        self._batch = await planning.find_batch(
            self._connection, given.report, given.channel, given.content_revision
        )
        if self._batch is not None:
            await self._compare_header(self._batch)

    def take(self, entry: Entry) -> None:
        """Put the intent of *entry* into the chunk, or reject it."""
        found = self._intake.read(entry) if isinstance(entry, Row) else entry
        if isinstance(found, Reject):
            self._rejected += 1
            self._on_reject(found)
            return
        _, first = self.chunk.setdefault(found.intent_key, (entry.line, found))
        if first is not found:
            self._repeated += 1
            self._conflicts.add(entry.line, repeat_conflicts(first, found))

    async def keep_chunk(self) -> None:
        """Store what is new in the chunk, and compare the rest with what was there before."""
        if not self.chunk:
            return
        request = self._intake.request
        batch = self._batch or await self._keep_batch()
        new = await planning.add_intents(
            self._connection,
            batch,
            [intent for _, intent in self.chunk.values()],
            eligible_at=request.not_before,
            not_after=request.not_after,
        )
        self._added += len(new)
        if new:
            await notify_work(self._connection, batch.channel)
        if len(new) < len(self.chunk):
            await self._compare([key for key in self.chunk if key not in new])
        self.chunk.clear()

    def result(self) -> PlanResult:
        """Return the counts. Raises :class:`PlanConflict` when a row differed from what was planned."""
        self._conflicts.raise_any()
        return PlanResult(
            added=self._added,
            known=self._known,
            repeated=self._repeated,
            rejected=self._rejected,
        )

    async def _keep_batch(self) -> BatchRow:
        request = self._intake.request
        content_id = await planning.keep_content(
            self._connection,
            template_revision=self._intake.template_revision,
            parts=dict(request.parts),
            settings=dict(request.settings),
        )
        self._batch = await planning.keep_batch(self._connection, self._intake.header(content_id))
        # Another process may have been first, between our look and now.
        await self._compare_header(self._batch)
        return self._batch

    async def _compare_header(self, stored: BatchRow) -> None:
        given = self._intake.header(stored.content_id)
        fields = [*header_conflicts(stored, given), *await self._content_conflicts(stored)]
        if fields:
            raise PlanConflict(Conflict(field=field) for field in fields)

    async def _content_conflicts(self, stored: BatchRow) -> Iterator[str]:
        content = await planning.load_content(self._connection, stored.content_id)
        if content.template_revision == self._intake.template_revision:
            return iter(())
        request = self._intake.request
        return iter(
            [
                *mapping_conflicts("content.", content.parts, request.parts),
                *mapping_conflicts("content.settings.", content.settings, request.settings),
            ]
        )

    async def _compare(self, keys: list[bytes]) -> None:
        stored = await planning.load_planned(self._connection, keys)
        for key in keys:
            line, intent = self.chunk[key]
            found = stored[key]
            self._repeated += found.fresh
            self._known += not found.fresh
            self._conflicts.add(line, intent_conflicts(found, intent, self._intake.request))
