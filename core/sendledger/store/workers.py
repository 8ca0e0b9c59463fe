"""The register of workers: who works now, for people. Nothing depends on it for correctness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.rows import class_row

from sendledger.store.database import Connection
from sendledger.store.statements import statement

_NOTE = statement("note_worker")
_FORGET = statement("forget_workers")
_LIST = statement("list_workers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """What a worker says of itself."""

    worker_id: UUID
    pid: int
    host: str
    version: str
    channels: Sequence[str]
    in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker as registered, and for how long it has been silent."""

    worker_id: UUID
    started_at: datetime
    seen_at: datetime
    pid: int
    host: str
    version: str
    channels: list[str]
    in_flight: int
    silent_for: timedelta


async def note_worker(connection: Connection, presence: Presence) -> None:
    """Note that a worker is there."""
    parameters = {name: getattr(presence, name) for name in Presence.__slots__}
    await connection.execute(_NOTE, parameters | {"channels": list(presence.channels)})


async def forget_worker(connection: Connection, worker_id: UUID) -> None:
    """Forget a worker that ended, and those nobody has seen for a day."""
    await connection.execute(_FORGET, {"worker_id": worker_id})


async def list_workers(connection: Connection) -> list[WorkerRow]:
    """Return the registered workers, the longest at work first."""
    async with connection.cursor(row_factory=class_row(WorkerRow)) as cursor:
        await cursor.execute(_LIST)
        return await cursor.fetchall()
