"""What is closed: pauses that a person or the configuration ends, back-offs that a probe ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg.rows import class_row

from sendledger.store.attempts import DISPATCH_LOCK
from sendledger.store.database import Connection
from sendledger.store.statements import statement

_HOLD_CLOSED = statement("hold_dispatch_closed")
_BEGIN_PAUSE = statement("begin_pause")
_END_PAUSE = statement("end_pause")
_LIST_PAUSES = statement("list_pauses")
_PLANNED = statement("scope_planned")
_BEGIN_BACK_OFF = statement("begin_back_off")
_WIN_PROBE = statement("win_probe")
_END_BACK_OFF = statement("end_back_off")
_LIST_BACK_OFFS = statement("list_back_offs")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPause:
    """A scope to pause.

    ``configuration`` is the revision under which the fault was seen, so that a changed configuration
    ends the pause by itself; None when only a person may.
    """

    scope_key: str
    rule: str
    began_by: str
    configuration: str | None = None
    stage: str | None = None
    reply_code: int | None = None
    literal: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A standing pause."""

    scope_key: str
    rule: str
    began_at: datetime
    began_by: str
    configuration: str | None
    stage: str | None
    reply_code: int | None
    literal: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """A scope closed by an outage until a probe succeeds."""

    scope_key: str
    rule: str
    began_at: datetime
    probe_at: datetime
    probes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The right to probe a closed scope, won for one probe interval."""

    began_at: datetime
    rule: str
    now: datetime


async def begin_pause(connection: Connection, pause: NewPause) -> bool:
    """Pause a scope, exactly: when the transaction commits, no opening is under way that missed it.

    Returns whether it was not paused already.
    """
    await hold_dispatch(connection)
    return await note_pause(connection, pause)


async def hold_dispatch(connection: Connection) -> None:
    """Wait for the openings under way and keep new ones out until the transaction ends."""
    await connection.execute(_HOLD_CLOSED, {"dispatch_lock": DISPATCH_LOCK})


async def note_pause(connection: Connection, pause: NewPause) -> bool:
    """Pause a scope without waiting for the openings under way: for a fault that was met.

    Recording holds row locks already; to wait for openings that may want them would be a deadlock.
    """
    parameters = {name: getattr(pause, name) for name in NewPause.__slots__}
    cursor = await connection.execute(_BEGIN_PAUSE, parameters)
    return cursor.rowcount > 0


async def end_pause(connection: Connection, scope_key: str, *, ended_by: str) -> bool:
    """End the pause of a scope; returns whether there was one."""
    cursor = await connection.execute(_END_PAUSE, {"scope_key": scope_key, "ended_by": ended_by})
    return cursor.rowcount > 0


async def list_pauses(connection: Connection) -> list[Pause]:
    """Return what is paused now, oldest first."""
    async with connection.cursor(row_factory=class_row(Pause)) as cursor:
        await cursor.execute(_LIST_PAUSES)
        return await cursor.fetchall()


async def scope_planned(connection: Connection, scope_key: str) -> bool:
    """Return whether anything is planned in a scope."""
    cursor = await connection.execute(_PLANNED, {"scope_key": scope_key})
    row = await cursor.fetchone()
    return bool(row and row[0])


async def begin_back_off(
    connection: Connection, scope_key: str, *, rule: str, wait: timedelta
) -> bool:
    """Close a scope until its first probe after *wait*; returns whether it was open."""
    parameters = {"scope_key": scope_key, "rule": rule, "wait": wait}
    cursor = await connection.execute(_BEGIN_BACK_OFF, parameters)
    return cursor.rowcount > 0


async def win_probe(
    connection: Connection, scope_key: str, *, probe: timedelta, probe_max: timedelta
) -> Probe | None:
    """Win the right to probe a closed scope, or None: another worker has it, or it is not time."""
    async with connection.cursor(row_factory=class_row(Probe)) as cursor:
        await cursor.execute(
            _WIN_PROBE, {"scope_key": scope_key, "probe": probe, "probe_max": probe_max}
        )
        return await cursor.fetchone()


async def end_back_off(connection: Connection, scope_key: str) -> bool:
    """Open a closed scope again; returns whether it was closed."""
    cursor = await connection.execute(_END_BACK_OFF, {"scope_key": scope_key})
    return cursor.rowcount > 0


async def list_back_offs(connection: Connection) -> list[BackOff]:
    """Return what an outage has closed, oldest first."""
    async with connection.cursor(row_factory=class_row(BackOff)) as cursor:
        await cursor.execute(_LIST_BACK_OFFS)
        return await cursor.fetchall()
