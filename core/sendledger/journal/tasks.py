"""Operator tasks that a person closes by hand; most are closed by what ends their cause."""

from __future__ import annotations

from sendledger.store import side_effects
from sendledger.store.database import Database
from sendledger.store.side_effects import ClosedTask, NewTask

REFUSED = "receipts-refused"


async def close_task(database: Database, task_id: int, *, actor: str) -> ClosedTask | None:
    """Close one open task in *actor*'s name; None when no such task is open.

    It moves nothing else: a pause stays until it is resumed, and a delivery until it is decided.
    """
    async with database.transaction() as connection:
        return await side_effects.close_task(connection, task_id, closed_by=actor)


async def tell_refused(database: Database, channel: str, *, reason: str) -> None:
    """Open the task that receipts of *channel* are refused again and again, for *reason*."""
    task = NewTask(kind=REFUSED, cause=reason, scope_key=f"channel:{channel}")
    async with database.transaction() as connection:
        await side_effects.open_tasks(connection, [task])


async def end_refused(database: Database, channel: str) -> None:
    """Close what :func:`tell_refused` opened: receipts of *channel* are taken again."""
    async with database.transaction() as connection:
        await side_effects.close_tasks(
            connection, [REFUSED], f"channel:{channel}", closed_by="receipt"
        )
