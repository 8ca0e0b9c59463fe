"""Receipts: committed before they are acknowledged, and gone in the transaction that folds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from psycopg.rows import class_row

from sendledger.store.columns import array, columns
from sendledger.store.database import Connection
from sendledger.store.statements import statement

HINT = "@inbox"
"""What listeners are told when a receipt came in; no channel can have this name."""

_ADD = statement("add_receipts")
_FIND = statement("find_receipts")
_TAKE = statement("take_receipts")
_DROP = statement("drop_receipts")
_QUARANTINE = statement("quarantine_receipts")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReceipt:
    """A verified receipt. ``evidence`` is JSON without the literal, which is ``body``."""

    intent_id: int | None
    attempt: int | None
    channel: str
    source: str
    identity: str
    occurred_at: datetime | None
    evidence: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRow:
    """A receipt that waits to be folded."""

    inbox_id: int
    received_at: datetime
    occurred_at: datetime | None
    intent_id: int | None
    attempt: int | None
    channel: str
    source: str
    identity: str
    evidence: Mapping[str, Any]
    body: bytes = field(repr=False)


async def add_receipts(connection: Connection, rows: Sequence[NewReceipt]) -> None:
    """Commit receipts in one statement; those that wait already are left out."""
    await connection.execute(_ADD, columns(NewReceipt, rows) | {"hint": HINT})


async def find_receipts(
    connection: Connection, channels: Sequence[str], *, rows_max: int
) -> list[ReceiptRow]:
    """Return the oldest receipts of *channels* that wait; whoever folds them takes them first."""
    async with connection.cursor(row_factory=class_row(ReceiptRow)) as cursor:
        await cursor.execute(_FIND, {"channels": list(channels), "rows_max": rows_max})
        return await cursor.fetchall()


async def take_receipts(connection: Connection, inbox_ids: Sequence[int]) -> set[int]:
    """Lock receipts until the transaction ends; returns those that nobody else has."""
    cursor = await connection.execute(_TAKE, {"inbox_ids": list(inbox_ids)})
    return {row[0] for row in await cursor.fetchall()}


async def drop_receipts(connection: Connection, inbox_ids: Sequence[int]) -> None:
    """Take receipts out of the inbox."""
    await connection.execute(_DROP, {"inbox_ids": list(inbox_ids)})


async def quarantine_receipts(connection: Connection, reasons: Mapping[int, str]) -> None:
    """Keep these receipts, by inbox id, apart from the ledger, each with its reason."""
    parameters = {"inbox_ids": array(list(reasons)), "reasons": array(list(reasons.values()))}
    await connection.execute(_QUARANTINE, parameters)
