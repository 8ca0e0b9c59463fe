"""Content revisions, batch headers and intents: what planning adds, and what it finds there already."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import AsyncRowFactory, class_row, scalar_row, tuple_row

from sendledger.store.array_text import bytes_array
from sendledger.store.copy_binary import copy_stream
from sendledger.store.new_intents import DIGEST_BYTES, IntentsCopy, NewIntent
from sendledger.store.statements import statement

PlanningConnection = psycopg.AsyncConnection[Any]
"""May be a caller's own: whatever its row factory, cursor factory, search path and autocommit."""

_ADD_CONTENT = statement("add_content")
_FIND_CONTENT = statement("find_content")
_LOAD_CONTENT = statement("load_content")
_ADD_BATCH = statement("add_batch")
_FIND_BATCH = statement("find_batch")
_FIND_PLANNED = statement("find_planned")
_NUMBER_INTENTS = statement("number_intents")
_COPY_INTENTS = statement("copy_intents")
_COPY_SECRETS = statement("copy_secrets")
_COPY_DELIVERIES = statement("copy_deliveries")
_LOAD_PLANNED = statement("load_planned")
_HOLD_PLANNING = statement("hold_planning")
_READ_START = statement("read_start")
_READ_BINDING = statement("read_binding")

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Which installation a database is bound to, and its schema revision."""

    installation_id: UUID
    schema_revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningStart:
    """The database's clock when a run began, the instant of its transaction, and the last intent there was."""

    now: datetime
    planned_at: datetime
    last_intent_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentRow:
    """A stored content revision: sources of its parts and the settings that belong to it."""

    content_id: int
    template_revision: bytes
    parts: dict[str, str]
    settings: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """The header of a batch: what it is for and who allowed it."""

    report: str
    channel: str
    content_revision: str
    purpose: str
    lane: int
    content_id: int
    authorization_id: str
    authorized_by: str
    authorized_at: datetime
    scope_keys: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow(NewBatch):
    """A stored batch header."""

    batch_id: int
    planned_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRow:
    """What was planned under an intent key; ``variables`` and ``attachment_places`` are None once erased.

    ``fresh`` tells that this very run planned it. Without a ``not_before`` of its own an intent
    is eligible at the instant it was planned.
    """

    intent_key: bytes
    destination_fingerprint: bytes
    content_digest: bytes
    planned_at: datetime
    fresh: bool
    eligible_at: datetime
    not_after: datetime | None
    variables: dict[str, Any] | None
    attachments: list[dict[str, Any]] | None
    attachment_places: list[dict[str, Any]] | None


@asynccontextmanager
async def whole(connection: PlanningConnection) -> AsyncIterator[None]:
    """Make what is done in the block happen as a whole or not at all, inside the caller's transaction.

    Nothing is committed, unless *connection* is in autocommit and in no transaction: then this is one.
    """
    if not connection.autocommit and _idle(connection):
        await connection.execute(
            "SELECT 1", prepare=False
        )  # begins the caller's, to be ended there
    async with connection.transaction():
        yield


async def read_binding(connection: PlanningConnection) -> Binding | None:
    """Return what the database is bound to, None when it holds no ledger."""
    try:
        async with whole(connection):
            return await _fetch_one(connection, class_row(Binding), _READ_BINDING, {})
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None


async def hold_planning(connection: PlanningConnection, lock: int) -> None:
    """Wait until no other transaction plans the batch that *lock* stands for, and keep others waiting."""
    await _fetch_one(connection, scalar_row, _HOLD_PLANNING, {"planning_lock": lock})


async def read_start(connection: PlanningConnection) -> PlanningStart:
    """Return where a run of planning begins."""
    start = await _fetch_one(connection, class_row(PlanningStart), _READ_START, {})
    assert start is not None
    return start


async def keep_content(
    connection: PlanningConnection,
    *,
    template_revision: bytes,
    parts: Mapping[str, str],
    settings: Mapping[str, str],
    authored: Mapping[str, str] | None = None,
) -> int:
    """Store a content revision unless it is there; returns its id.

    *authored* is what was written in place of parts that were made of it.
    """
    parameters = {
        "template_revision": template_revision,
        "parts": json.dumps(dict(parts)),
        "settings": json.dumps(dict(settings)),
        "authored": json.dumps(dict(authored or {})),
    }
    found = await _fetch_one(connection, scalar_row, _ADD_CONTENT, parameters)
    if found is None:
        found = await _fetch_one(
            connection, scalar_row, _FIND_CONTENT, {"template_revision": template_revision}
        )
    assert isinstance(found, int)
    return found


async def load_content(connection: PlanningConnection, content_id: int) -> ContentRow:
    """Return a content revision. Raises ``LookupError`` when there is none."""
    row = await _fetch_one(
        connection, class_row(ContentRow), _LOAD_CONTENT, {"content_id": content_id}
    )
    if row is None:
        raise LookupError(f"content {content_id} is not in the ledger")
    return row


async def keep_batch(connection: PlanningConnection, batch: NewBatch) -> BatchRow:
    """Create the batch header unless it is there; returns the stored one, for the caller to compare."""
    parameters = {name: getattr(batch, name) for name in NewBatch.__dataclass_fields__}
    await _fetch_one(connection, scalar_row, _ADD_BATCH, parameters)
    found = await find_batch(connection, batch.report, batch.channel, batch.content_revision)
    assert found is not None
    return found


async def find_batch(
    connection: PlanningConnection, report: str, channel: str, content_revision: str
) -> BatchRow | None:
    """Return the header of one report, channel and content revision."""
    parameters = {"report": report, "channel": channel, "content_revision": content_revision}
    return await _fetch_one(connection, class_row(BatchRow), _FIND_BATCH, parameters)


async def add_intents(  # noqa: PLR0913 - what a batch may have of its own
    connection: PlanningConnection,
    batch: BatchRow,
    rows: Sequence[NewIntent],
    *,
    eligible_at: datetime | None = None,
    not_after: datetime | None = None,
    all_new: bool = False,
) -> set[bytes]:
    """Add intents with their deliveries, none whose key is there; returns the keys that were new.

    No key may be twice among *rows*. Whoever knows that none is there says *all_new*, and none is looked
    up. Whoever may not be alone with the batch calls :func:`hold_planning` first; without it the later
    of two fails with ``UniqueViolation``.
    """
    keys = {row.intent_key for row in rows}
    known = set() if all_new else await find_planned(connection, list(keys))
    new_rows = [row for row in rows if row.intent_key not in known] if known else rows
    if not new_rows:
        return set()
    if eligible_at is None:
        eligible_at = (await read_start(connection)).planned_at
    intent_ids = await _number(connection, len(new_rows))
    new = IntentsCopy(intent_ids, new_rows, batch_id=batch.batch_id, eligible_at=eligible_at)
    await _copy(connection, _COPY_INTENTS, new.intents(not_after=not_after))
    await _copy(connection, _COPY_SECRETS, new.secrets())
    deliveries = new.deliveries(lane=batch.lane, channel=batch.channel)
    await _copy(connection, _COPY_DELIVERIES, deliveries)
    return keys - known


async def find_planned(connection: PlanningConnection, intent_keys: Sequence[bytes]) -> set[bytes]:
    """Return those of *intent_keys* that are in the ledger."""
    keys = bytes_array(intent_keys, item_bytes=DIGEST_BYTES)
    return set(await _fetch_all(connection, scalar_row, _FIND_PLANNED, {"intent_keys": keys}))


async def _number(connection: PlanningConnection, count: int) -> list[int]:
    """Return ids for *count* new intents, in ascending order."""
    numbers = await _fetch_one(connection, scalar_row, _NUMBER_INTENTS, {"count": count})
    assert isinstance(numbers, list)
    return numbers


async def load_planned(
    connection: PlanningConnection,
    intent_keys: Sequence[bytes],
    *,
    start: PlanningStart | None = None,
) -> dict[bytes, PlannedRow]:
    """Return what stands in the ledger under these keys, for a run that began at *start*."""
    parameters = {
        "intent_keys": bytes_array(intent_keys, item_bytes=DIGEST_BYTES),
        "last_intent_id": 0 if start is None else start.last_intent_id,
    }
    rows = await _fetch_all(connection, class_row(PlannedRow), _LOAD_PLANNED, parameters)
    return {row.intent_key: row for row in rows}


def _idle(connection: PlanningConnection) -> bool:
    return connection.info.transaction_status is TransactionStatus.IDLE


async def _fetch_one(
    connection: PlanningConnection,
    kind: AsyncRowFactory[Row],
    query: bytes,
    parameters: Mapping[str, Any],
) -> Row | None:
    async with _cursor(connection, kind) as cursor:
        await cursor.execute(query, parameters, prepare=False)
        return await cursor.fetchone()


async def _fetch_all(
    connection: PlanningConnection,
    kind: AsyncRowFactory[Row],
    query: bytes,
    parameters: Mapping[str, Any],
) -> list[Row]:
    async with _cursor(connection, kind) as cursor:
        await cursor.execute(query, parameters, prepare=False)
        return await cursor.fetchall()


async def _copy(connection: PlanningConnection, query: bytes, blocks: Iterable[bytes]) -> None:
    """Hand rows over block by block: the server takes one in while the next is written."""
    async with _cursor(connection, tuple_row) as cursor, cursor.copy(query) as copy:
        for octets in copy_stream(blocks):
            await copy.write(octets)


def _cursor(connection: PlanningConnection, kind: AsyncRowFactory[Row]) -> psycopg.AsyncCursor[Row]:
    """Return a cursor of our own kind: the caller's factories may speak of rows and parameters otherwise."""
    return psycopg.AsyncCursor(connection, row_factory=kind)
