"""Looking for what is stuck, and counting for whoever watches: nothing here is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg.rows import class_row

from sendledger.ledger.words import Awaits
from sendledger.store.database import Connection
from sendledger.store.statements import statement

_FIND_OVERDUE = statement("find_overdue")
_COUNT_OVERDUE = statement("count_overdue")
_COUNT_DELIVERIES = statement("count_deliveries")
_COUNT_TASKS = statement("count_tasks")
_READ_BACKLOG = statement("read_backlog")
_AWAITS = [str(word) for word in Awaits]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """The row of one channel and awaited event that is overdue for longest."""

    channel: str
    awaits: str
    intent_key: bytes
    destination_fingerprint: bytes
    overdue: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class OverdueCount:
    """How many rows of one channel and awaited event are overdue about as long.

    ``age_group`` 0 is the oldest; ``intent_key`` is the row that has been due since ``due_first``.
    """

    channel: str
    awaits: str
    age_group: int
    rows: int
    due_first: datetime
    intent_key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryCount:
    """How many deliveries of one channel share a status."""

    channel: str
    status: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The age of the oldest unread receipt, and of the oldest snapshot; None where there is none."""

    inbox: timedelta | None
    xmin_transactions: int | None
    xmin_held: timedelta | None


async def find_overdue(
    connection: Connection, *, grace: timedelta, now: datetime | None = None
) -> list[Overdue]:
    """Return, for each channel and awaited event, the row that is overdue for longest beyond *grace*."""
    async with connection.cursor(row_factory=class_row(Overdue)) as cursor:
        await cursor.execute(_FIND_OVERDUE, {"awaits": _AWAITS, "grace": grace, "now": now})
        return await cursor.fetchall()


async def count_overdue(
    connection: Connection,
    *,
    grace: timedelta,
    edges: Sequence[timedelta],
    now: datetime | None = None,
) -> list[OverdueCount]:
    """Count rows overdue beyond *grace* in groups parted by *edges*, which must be longest first."""
    parameters = {"awaits": _AWAITS, "grace": grace, "edges": list(edges), "now": now}
    async with connection.cursor(row_factory=class_row(OverdueCount)) as cursor:
        await cursor.execute(_COUNT_OVERDUE, parameters)
        return await cursor.fetchall()


async def count_deliveries(connection: Connection) -> list[DeliveryCount]:
    """Count all deliveries by channel and status; this reads the whole table."""
    async with connection.cursor(row_factory=class_row(DeliveryCount)) as cursor:
        await cursor.execute(_COUNT_DELIVERIES)
        return await cursor.fetchall()


async def count_tasks(connection: Connection) -> dict[str, int]:
    """Count the open operator tasks by kind."""
    cursor = await connection.execute(_COUNT_TASKS)
    return dict(await cursor.fetchall())


async def read_backlog(connection: Connection) -> Backlog:
    """Return what is waiting to be read, and what keeps dead rows from being removed."""
    async with connection.cursor(row_factory=class_row(Backlog)) as cursor:
        await cursor.execute(_READ_BACKLOG)
        row = await cursor.fetchone()
    assert row is not None
    return row
