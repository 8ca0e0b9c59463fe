"""Rows whose fate is asked of the provider: which are due, what they are recognised by, when next."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from psycopg.rows import class_row

from sendledger.store.columns import array, columns
from sendledger.store.database import Connection
from sendledger.store.statements import statement

_CLAIM = statement("claim_looks")
_LOAD = statement("load_asked")
_NOTE = statement("note_looks")
_HOLD_ADOPTIONS = statement("hold_adoptions")
_REFERENCES = statement("find_references")
_RIVALS = statement("find_rivals")

ADOPTION_LOCK = 0x5E4D1ED8

Key = tuple[int, int]
"""Intent and number of an attempt."""


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

    @property
    def key(self) -> Key:
        """Which attempt it is."""
        return self.intent_id, self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class NextLook:
    """When a row is looked at again, and when its provider was asked; None where it did not answer."""

    intent_id: int
    wake_at: datetime
    looked_at: datetime | None


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


async def hold_adoptions(connection: Connection) -> None:
    """Be the only one who adopts references that look-ups found, until the transaction ends."""
    await connection.execute(_HOLD_ADOPTIONS, {"adoption_lock": ADOPTION_LOCK})


async def find_references(
    connection: Connection, references: Collection[str]
) -> dict[str, set[Key]]:
    """Return whose these references are: of the attempts that were told one, else that found it."""
    cursor = await connection.execute(_REFERENCES, {"references": sorted(references)})
    told: dict[str, set[Key]] = {}
    found: dict[str, set[Key]] = {}
    for reference, intent_id, number, was_told in await cursor.fetchall():
        owners = told if was_told else found
        owners.setdefault(reference, set()).add((intent_id, number))
    return found | told


async def find_rivals(
    connection: Connection, channel: str, attempts: Sequence[Key], *, slack: timedelta
) -> list[tuple[Key, Key]]:
    """Return each of *attempts* with each that went to the same destination about then and is open too.

    *slack* is how far clocks may be apart.
    """
    parameters = {
        "channel": channel,
        "intent_id": array([intent_id for intent_id, _ in attempts]),
        "number": array([number for _, number in attempts]),
        "slack": slack,
    }
    cursor = await connection.execute(_RIVALS, parameters)
    return [((row[0], row[1]), (row[2], row[3])) for row in await cursor.fetchall()]


async def note_looks(connection: Connection, looks: Sequence[NextLook]) -> None:
    """Note when rows that still await evidence are looked at again."""
    if looks:
        await connection.execute(_NOTE, columns(NextLook, looks))
