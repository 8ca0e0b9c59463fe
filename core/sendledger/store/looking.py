"""Rows whose fate is asked of the provider: which are due, what they are recognised by, when next."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from psycopg.rows import class_row

from sendledger.store.columns import columns
from sendledger.store.database import Connection
from sendledger.store.statements import statement

_CLAIM = statement("claim_looks")
_LOAD = statement("load_asked")
_NOTE = statement("note_looks")
_REFERENCES = statement("find_references")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A row that is due for a look, and when its provider last answered."""

    intent_id: int
    looked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRow:
    """One attempt as its provider could recognise it. The secrets are None once erased."""

    intent_id: int
    number: int
    opened_at: datetime
    result_due_at: datetime
    token_key_id: int
    intent_key: bytes
    not_after: datetime | None
    content_id: int
    destination: str | None = field(repr=False)
    variables: dict[str, Any] | None = field(repr=False)
    provider_reference: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextLook:
    """When a row is looked at again, and whether its provider did answer now."""

    intent_id: int
    wake_at: datetime
    looked: bool


async def claim_looks(
    connection: Connection,
    channel: str,
    *,
    hold: timedelta,
    rows_max: int,
    now: datetime | None = None,
) -> list[Look]:
    """Take rows that are due, and keep others from them for *hold*."""
    parameters = {"channel": channel, "hold": hold, "rows_max": rows_max, "now": now}
    async with connection.cursor(row_factory=class_row(Look)) as cursor:
        await cursor.execute(_CLAIM, parameters)
        return await cursor.fetchall()


async def load_asked(connection: Connection, intent_ids: Sequence[int]) -> list[AskedRow]:
    """Return every attempt of these intents, by intent and number."""
    async with connection.cursor(row_factory=class_row(AskedRow)) as cursor:
        await cursor.execute(_LOAD, {"intent_ids": list(intent_ids)})
        return await cursor.fetchall()


async def find_references(
    connection: Connection, references: Collection[str]
) -> dict[str, set[tuple[int, int]]]:
    """Return which attempts, by intent and number, hold each of these references already."""
    cursor = await connection.execute(_REFERENCES, {"references": sorted(references)})
    held: dict[str, set[tuple[int, int]]] = {}
    for reference, intent_id, number in await cursor.fetchall():
        held.setdefault(reference, set()).add((intent_id, number))
    return held


async def note_looks(connection: Connection, looks: Sequence[NextLook]) -> None:
    """Note when rows that still await evidence are looked at again."""
    if looks:
        await connection.execute(_NOTE, columns(NextLook, looks))
