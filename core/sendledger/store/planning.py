"""Content revisions, batch headers and intents: what planning adds, and what it finds there already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Json

from sendledger.store.columns import columns
from sendledger.store.database import Connection
from sendledger.store.statements import statement

_ADD_CONTENT = statement("add_content")
_FIND_CONTENT = statement("find_content")
_LOAD_CONTENT = statement("load_content")
_ADD_BATCH = statement("add_batch")
_FIND_BATCH = statement("find_batch")
_ADD_INTENTS = statement("add_intents")
_LOAD_PLANNED = statement("load_planned")


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
class NewIntent:
    """One recipient of a batch. The last three are the erasable side row; ``variables`` is JSON text."""

    intent_key: bytes
    recipient_fingerprint: bytes
    destination_fingerprint: bytes
    content_digest: bytes
    recipient_id: str
    destination: str
    variables: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRow:
    """What was planned under an intent key; ``variables`` is None once erased.

    ``fresh`` tells that this very transaction planned it. Without a ``not_before`` of its own an intent
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


async def keep_content(
    connection: Connection,
    *,
    template_revision: bytes,
    parts: dict[str, str],
    settings: dict[str, str],
) -> int:
    """Store a content revision unless it is there; returns its id."""
    parameters = {
        "template_revision": template_revision,
        "parts": Json(parts),
        "settings": Json(settings),
    }
    cursor = await connection.execute(_ADD_CONTENT, parameters)
    row = await cursor.fetchone()
    if row is None:
        cursor = await connection.execute(_FIND_CONTENT, {"template_revision": template_revision})
        row = await cursor.fetchone()
    assert row is not None
    content_id: int = row[0]
    return content_id


async def load_content(connection: Connection, content_id: int) -> ContentRow:
    """Return a content revision. Raises ``LookupError`` when there is none."""
    async with connection.cursor(row_factory=class_row(ContentRow)) as cursor:
        await cursor.execute(_LOAD_CONTENT, {"content_id": content_id})
        row = await cursor.fetchone()
    if row is None:
        raise LookupError(f"content {content_id} is not in the ledger")
    return row


async def keep_batch(connection: Connection, batch: NewBatch) -> BatchRow:
    """Create the batch header unless it is there; returns the stored one, for the caller to compare."""
    parameters = {name: getattr(batch, name) for name in NewBatch.__dataclass_fields__}
    await connection.execute(_ADD_BATCH, parameters)
    found = await find_batch(connection, batch.report, batch.channel, batch.content_revision)
    assert found is not None
    return found


async def find_batch(
    connection: Connection, report: str, channel: str, content_revision: str
) -> BatchRow | None:
    """Return the header of one report, channel and content revision."""
    async with connection.cursor(row_factory=class_row(BatchRow)) as cursor:
        await cursor.execute(
            _FIND_BATCH,
            {"report": report, "channel": channel, "content_revision": content_revision},
        )
        return await cursor.fetchone()


async def add_intents(
    connection: Connection,
    batch: BatchRow,
    rows: Sequence[NewIntent],
    *,
    eligible_at: datetime | None = None,
    not_after: datetime | None = None,
) -> set[bytes]:
    """Add intents with their deliveries; returns the keys that were new."""
    parameters = columns(NewIntent, rows) | {
        "batch_id": batch.batch_id,
        "channel": batch.channel,
        "lane": batch.lane,
        "eligible_at": eligible_at,
        "not_after": not_after,
    }
    cursor = await connection.execute(_ADD_INTENTS, parameters)
    return {row[0] for row in await cursor.fetchall()}


async def load_planned(
    connection: Connection, intent_keys: Sequence[bytes]
) -> dict[bytes, PlannedRow]:
    """Return what stands in the ledger under these keys."""
    async with connection.cursor(row_factory=class_row(PlannedRow)) as cursor:
        await cursor.execute(_LOAD_PLANNED, {"intent_keys": list(intent_keys)})
        return {row.intent_key: row for row in await cursor.fetchall()}
