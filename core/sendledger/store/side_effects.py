"""Standing refusals and operator tasks: written in the transaction of the observation behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from sendledger.store.columns import columns
from sendledger.store.database import Connection
from sendledger.store.statements import statement

_ADD_SUPPRESSIONS = statement("add_suppressions")
_OPEN_TASKS = statement("open_tasks")
_CLOSE_TASKS = statement("close_tasks")
_CLOSE_TASK = statement("close_task")
_LIST_TASKS = statement("list_tasks")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSuppression:
    """A standing refusal and the observation it rests on."""

    destination_fingerprint: bytes
    scope_key: str
    rule: str
    intent_id: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """Something a person must decide or mend; one open task a kind, cause and scope."""

    kind: str
    cause: str
    scope_key: str
    intent_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedTask:
    """A task that was just closed."""

    kind: str
    cause: str
    scope_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """An open operator task; ``intent_key`` is an example of the rows behind it."""

    task_id: int
    kind: str
    cause: str
    scope_key: str
    opened_at: datetime
    intent_key: bytes | None


async def add_suppressions(connection: Connection, rows: Sequence[NewSuppression]) -> None:
    """Add standing refusals; one that stands already stays as it is."""
    if rows:
        await connection.execute(_ADD_SUPPRESSIONS, columns(NewSuppression, rows))


async def open_tasks(connection: Connection, rows: Sequence[NewTask]) -> None:
    """Open operator tasks that are not open yet."""
    if rows:
        ordered = sorted(set(rows), key=lambda task: (task.kind, task.cause, task.scope_key))
        await connection.execute(_OPEN_TASKS, columns(NewTask, ordered))


async def close_tasks(
    connection: Connection, kinds: Sequence[str], scope_key: str, *, closed_by: str
) -> None:
    """Close the open tasks of these kinds that a scope has, or that it is the cause of."""
    await connection.execute(
        _CLOSE_TASKS, {"kinds": list(kinds), "scope_key": scope_key, "closed_by": closed_by}
    )


async def close_task(connection: Connection, task_id: int, *, closed_by: str) -> ClosedTask | None:
    """Close one task; returns None when there is no such open task."""
    async with connection.cursor(row_factory=class_row(ClosedTask)) as cursor:
        await cursor.execute(_CLOSE_TASK, {"task_id": task_id, "closed_by": closed_by})
        return await cursor.fetchone()


async def list_tasks(connection: Connection, *, rows_max: int) -> list[Task]:
    """Return the oldest open tasks."""
    async with connection.cursor(row_factory=class_row(Task)) as cursor:
        await cursor.execute(_LIST_TASKS, {"rows_max": rows_max})
        return await cursor.fetchall()
