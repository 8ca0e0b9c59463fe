"""Reading for people: counts of a batch, one intent, the whole ledger page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from psycopg.rows import class_row

from sendledger.store.columns import columns
from sendledger.store.database import Connection
from sendledger.store.ledger_rows import DeliveryRow
from sendledger.store.statements import statement

_COUNT = statement("count_batches")
_FIND_INTENTS = statement("find_intents")
_LITERALS = statement("load_literals")
_RECIPIENT = statement("load_recipient")
_PAGE = statement("page_intents")
_RESTORE = statement("restore_deliveries")
_DROP = statement("drop_deliveries")
_KEY_HEX = 32


class RecipientRow(NamedTuple):
    """The erasable side row of one intent, as far as a person may ask for it."""

    recipient_id: str
    destination: str
    attachment_places: list[dict[str, Any]] | None

    def __repr__(self) -> str:
        return "RecipientRow()"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCount:
    """How many deliveries of one batch share a status, what they await and by when."""

    batch_id: int
    report: str
    channel: str
    content_revision: str
    purpose: str
    authorization_id: str
    authorized_by: str
    authorized_at: datetime
    planned_at: datetime
    status: str
    awaits: str | None
    contradicted: bool
    rows: int
    due_first: datetime | None
    due_last: datetime | None
    rows_due: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentRow:
    """One intent with its batch header and its stored projection."""

    intent_id: int
    intent_key: bytes
    eligible_at: datetime
    not_after: datetime | None
    planned_at: datetime
    provenance: str
    correction: int
    content_digest: bytes
    attachments: list[dict[str, Any]] | None
    report: str
    channel: str
    content_revision: str
    purpose: str
    authorization_id: str
    authorized_by: str
    authorized_at: datetime
    template_revision: bytes
    status: str
    awaits: str | None
    due_at: datetime | None
    attempt_count: int
    spent: int
    contradicted: bool
    because: int
    decision_seq: int | None
    seq: int
    wake_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedIntent:
    """An intent and the projection stored beside it; the projection is None when the row is gone."""

    intent_id: int
    intent_key: bytes
    eligible_at: datetime
    provenance: str
    channel: str
    lane: int
    batch_id: int
    has_delivery: bool
    status: str | None
    awaits: str | None
    due_at: datetime | None
    attempt_count: int | None
    spent: int | None
    contradicted: bool | None
    because: int | None
    decision_seq: int | None
    seq: int | None
    read_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredRow(DeliveryRow):
    """A whole delivery row as the ledger gives it, with the queue columns at rest."""

    batch_id: int
    channel: str
    lane: int


async def count_batches(
    connection: Connection, *, batch: str | None, now: datetime | None = None
) -> list[BatchCount]:
    """Count deliveries by batch, status and awaits.

    *batch* is None for all, or a batch id, REPORT, REPORT/REVISION or REPORT/REVISION/CHANNEL.
    """
    async with connection.cursor(row_factory=class_row(BatchCount)) as cursor:
        await cursor.execute(_COUNT, {"batch": batch, "now": now})
        return await cursor.fetchall()


async def find_intents(connection: Connection, prefix_hex: str) -> list[IntentRow]:
    """Return up to two intents whose key begins with *prefix_hex* (lower-case hex, 1 to 32 digits)."""
    async with connection.cursor(row_factory=class_row(IntentRow)) as cursor:
        await cursor.execute(
            _FIND_INTENTS,
            {
                "key_from": bytes.fromhex(prefix_hex.ljust(_KEY_HEX, "0")),
                "key_to": bytes.fromhex(prefix_hex.ljust(_KEY_HEX, "f")),
            },
        )
        return await cursor.fetchall()


async def load_literals(connection: Connection, intent_id: int) -> dict[int, bytes]:
    """Return the literal evidence of one intent by seq, as far as it was not erased."""
    cursor = await connection.execute(_LITERALS, {"intent_id": intent_id})
    return dict(await cursor.fetchall())


async def load_recipient(connection: Connection, intent_id: int) -> RecipientRow | None:
    """Return whom one intent is for, or None once that was erased."""
    cursor = await connection.execute(_RECIPIENT, {"intent_id": intent_id})
    row = await cursor.fetchone()
    return RecipientRow(*row) if row else None


async def page_intents(connection: Connection, *, after: int, rows_max: int) -> list[PagedIntent]:
    """Return the next page of all intents, by id."""
    async with connection.cursor(row_factory=class_row(PagedIntent)) as cursor:
        await cursor.execute(_PAGE, {"after": after, "rows_max": rows_max})
        return await cursor.fetchall()


async def restore_deliveries(connection: Connection, rows: Sequence[RestoredRow]) -> None:
    """Write whole delivery rows anew from the ledger, claims dropped except on open attempts."""
    await connection.execute(_DROP, {"intent_ids": [row.intent_id for row in rows]})
    await connection.execute(_RESTORE, columns(RestoredRow, rows))
