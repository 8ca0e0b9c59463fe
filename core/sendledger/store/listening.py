"""NOTIFY as a hint: a connection of its own that hears of new work. Polling stays the guarantee."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import psycopg

from sendledger.store.database import Connection, DatabaseAway, DatabaseRefused
from sendledger.store.statements import statement

_NOTIFY = statement("notify_work")


async def notify_work(connection: psycopg.AsyncConnection[Any], channel: str) -> None:
    """Tell listening workers, at commit, that *channel* has work. May be a caller's own connection."""
    async with psycopg.AsyncCursor(connection) as cursor:
        await cursor.execute(_NOTIFY, {"channel": channel}, prepare=False)


async def hear_work(dsn: str, *, every: timedelta) -> AsyncGenerator[str | None, None]:
    """Yield None once listening, then each channel that has work, and None at least at *every*.

    Needs a connection of its own, past any pooler. Raises ``DatabaseAway`` when it breaks; the caller
    connects again and looks for what it missed. Raises ``DatabaseRefused`` when a pooler is in the way:
    it would hand what is told here to anybody.
    """
    try:
        connection = await psycopg.AsyncConnection.connect(
            dsn, autocommit=True, prepare_threshold=None, application_name="sendledger listener"
        )
        async with connection:
            await _refuse_pooler(connection)
            await connection.execute("LISTEN sendledger_work")
            yield None
            while True:
                async for told in connection.notifies(timeout=every.total_seconds()):
                    yield told.payload
                await connection.execute("SELECT")  # a dead peer is noticed, not waited for
                yield None
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise DatabaseAway("the listening connection went away") from error


async def _refuse_pooler(connection: Connection) -> None:
    """Compare whom we were told we talk to with who answers: a pooler names itself."""
    cursor = await connection.execute("SELECT pg_backend_pid()")
    if await cursor.fetchone() != (connection.info.backend_pid,):
        raise DatabaseRefused("a pooler is in the way: give the way past it as database.direct_dsn")
