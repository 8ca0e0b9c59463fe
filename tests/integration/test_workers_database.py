"""A worker's connections: lent as soon as there is a server, and not a moment of waiting in vain."""

from __future__ import annotations

import asyncio
import time

import pytest
from psycopg.errors import ProgramLimitExceeded

from acceptance.door import Door
from sendledger.store.database import Database, DatabaseAway

DEADLINE_S = 20.0
TOO_LONG = "INSERT INTO t SELECT string_agg(md5(g::text), '') FROM generate_series(1, 1000) AS g"


async def test_whoever_waits_for_the_database_has_it_as_soon_as_it_is_back(
    shared_database: str,
) -> None:
    """The wait began while nobody was there, may last a minute, and nobody else asks."""
    async with Door(shared_database) as door, Database(door.dsn) as database:
        await door.shut()
        waiting = asyncio.create_task(borrow(database, timeout_s=60))
        await failed_to_connect(database)
        await door.open()
        async with asyncio.timeout(DEADLINE_S):
            await waiting


async def test_whoever_waits_in_vain_is_told_that_the_database_is_away(
    shared_database: str,
) -> None:
    async with Door(shared_database) as door, Database(door.dsn) as database:
        await door.shut()
        for timeout_s in (0.05, 1.2):
            with pytest.raises(DatabaseAway, match="does not answer"):
                await borrow(database, timeout_s=timeout_s)


async def test_a_value_that_an_index_cannot_hold_is_no_reason_to_wait_for_the_database(
    shared_database: str,
) -> None:
    """The driver calls that error operational, as those of a server that is gone."""
    async with Database(shared_database) as database:
        with pytest.raises(ProgramLimitExceeded):
            await store_too_long(database)


async def store_too_long(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute("CREATE TEMPORARY TABLE t (x text UNIQUE) ON COMMIT DROP")
        await connection.execute(TOO_LONG)


async def borrow(database: Database, *, timeout_s: float) -> None:
    async with database.connection(timeout_s=timeout_s) as connection:
        await connection.execute("SELECT 1")


async def failed_to_connect(database: Database) -> None:
    """Wait until the pool has given up at least once."""
    deadline = time.monotonic() + DEADLINE_S
    while not database._pool.get_stats().get("connections_errors"):
        assert time.monotonic() < deadline, "the pool never tried"
        await asyncio.sleep(0.01)
