"""The connection pool, and what must be true of a server before anything is sent through it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Self
from uuid import UUID
from weakref import WeakKeyDictionary

import psycopg
from psycopg.rows import TupleRow, class_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from sendledger.store.statements import statement

VERSION_MIN = 150000
TRUSTED_S = 1.0
"""How long a connection that worked is taken at its word."""

ASK_AGAIN_S = 1.0
"""How often whoever waits for a connection has the pool try to make one."""

Connection = psycopg.AsyncConnection[TupleRow]
DatabaseError = psycopg.Error

_AWAY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.IdleInTransactionSessionTimeout,
)

_LIMIT_EXCEEDED = "54"
"""The class of errors that a value is at fault for, though the driver calls them operational."""
_DISK_FULL, _SHUTDOWN = "53100", "57P"
"""PostgreSQL's error codes, appendix A of its manual: disk_full; admin_shutdown and its like."""

# In one round trip, and for each transaction: a pooler may give every one another session.
_BEGIN = b"BEGIN; SET LOCAL idle_in_transaction_session_timeout = '10s'"
_READ_SERVER = statement("read_server")
_READ_INSTALLATION = statement("read_installation")
_NOTE_POLICY = statement("note_policy")
_READ_REVISION = statement("read_revision")


class DatabaseRefused(Exception):  # noqa: N818 - a refusal is the word for it
    """The database cannot carry the ledger's promises; says which setting and what to do."""


class DatabaseAway(Exception):  # noqa: N818 - a state, not a slip
    """The database does not answer now; the same may work later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What was read of the server."""

    fsync: bool
    synchronous_commit: bool
    standby: bool
    read_only: bool
    version: int
    now: datetime


class Database:
    """A pool of connections in autocommit; every change is made in an explicit transaction."""

    def __init__(self, dsn: str, *, connections_max: int = 10) -> None:
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            dsn,
            min_size=1,
            max_size=connections_max,
            open=False,
            kwargs={
                "autocommit": True,
                "prepare_threshold": None,
                "application_name": "sendledger",
            },
            check=self._check,
            reconnect_timeout=0,
        )

        self._worked_at: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
        self._doubted_at = 0.0

    async def __aenter__(self) -> Self:
        await self._pool.open(wait=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close(timeout=5)

    @asynccontextmanager
    async def connection(self, timeout_s: float = 5.0) -> AsyncIterator[Connection]:
        """Lend a connection in autocommit. Raises :class:`DatabaseAway` when none is to be had."""
        try:
            connection = await self._borrow(timeout_s)
        except (PoolTimeout, psycopg.OperationalError) as error:
            raise DatabaseAway("the database does not answer") from error
        try:
            yield connection
            self._worked_at[connection] = time.monotonic()
        except _AWAY as error:
            if (error.sqlstate or "").startswith(_LIMIT_EXCEEDED):
                raise
            self._doubted_at = time.monotonic()
            raise DatabaseAway(f"the database went away: {_reason(error)}") from error
        finally:
            await asyncio.shield(self._pool.putconn(connection))

    async def _borrow(self, timeout_s: float) -> Connection:
        """Wait for a connection; the pool tries to make one only when it is asked, so ask again and again.

        Whoever merely waited would not notice that the server is back.
        """
        ends = time.monotonic() + timeout_s
        while (left_s := ends - time.monotonic()) > ASK_AGAIN_S:
            with suppress(PoolTimeout):
                return await self._pool.getconn(timeout=ASK_AGAIN_S)
        return await self._pool.getconn(timeout=left_s)

    async def _check(self, connection: Connection) -> None:
        """Ask whether *connection* still works, unless it just did: asking costs a round trip each time.

        Once any of them failed, all are asked.
        """
        worked_at = self._worked_at.get(connection, 0.0)
        if worked_at <= max(self._doubted_at, time.monotonic() - TRUSTED_S):
            await AsyncConnectionPool.check_connection(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Lend a connection inside one transaction; committed when the block ends without an error.

        The server ends it, undone, when we fall silent in it for 10 s: a stopped process or a frozen
        machine must not hold what recovery and pauses wait for.
        """
        async with self.connection() as connection:
            await connection.execute(_BEGIN)
            try:
                yield connection
            except BaseException:
                await _roll_back(connection)
                raise
            await connection.commit()

    async def check(self, installation_id: UUID) -> Server:
        """Return what the server says of itself.

        Raises :class:`DatabaseRefused` when it could forget a commit, cannot be written, is too old
        or belongs to another installation.
        """
        server = await self.server()
        _refuse_unsafe(server)
        async with self.connection() as connection:
            cursor = await connection.execute(_READ_INSTALLATION)
            row = await cursor.fetchone()
        if row is None or row[0] != installation_id:
            raise DatabaseRefused(
                "this database belongs to another installation: nothing is sent from a copy; use the"
                " key file that was made with it"
            )
        return server

    async def server(self) -> Server:
        """Return what the server says of itself, its clock included."""
        async with self.connection() as connection:
            return await _read_server(connection)

    async def written_for(self, *, within_s: float) -> str | None:
        """Return the revision of the schema. Raises ``DatabaseAway``, and ``DatabaseError`` without one."""
        async with self.connection(within_s) as connection:
            cursor = await connection.execute(_READ_REVISION)
            row = await cursor.fetchone()
        return None if row is None else str(row[0])

    async def note_policy(self, revision: str, document: str) -> None:
        """Keep what *revision* said, so that every observation can be read back."""
        async with self.connection() as connection:
            await connection.execute(_NOTE_POLICY, {"revision": revision, "document": document})


def _reason(error: psycopg.Error) -> str:
    """Return what an operator reads of *error*, whose own text may quote a row."""
    state = error.sqlstate or ""
    if state == _DISK_FULL:
        return "its disk is full; make room there, and try again"
    if state.startswith(_SHUTDOWN):
        return "it is shutting down or starting; try again once it is back"
    return f"{type(error).__name__}; look into its log, and try again"


async def _roll_back(connection: Connection) -> None:
    """Undo what is open; a connection that is gone has undone it by itself."""
    with suppress(psycopg.Error):
        await connection.rollback()


async def _read_server(connection: Connection) -> Server:
    async with connection.cursor(row_factory=class_row(Server)) as cursor:
        await cursor.execute(_READ_SERVER)
        server = await cursor.fetchone()
    assert server is not None
    return server


def _refuse_unsafe(server: Server) -> None:
    if server.version < VERSION_MIN:
        found = server.version // 10000
        raise DatabaseRefused(f"found PostgreSQL {found}, need 15 or later: upgrade the server")
    if server.standby or server.read_only:
        raise DatabaseRefused(
            "the database is a standby or read-only: point the settings at the primary"
        )
    if not server.fsync:
        raise DatabaseRefused("fsync is off: a crash would forget attempts; turn fsync on")
    if not server.synchronous_commit:
        raise DatabaseRefused(
            "synchronous_commit is off: a crash would forget attempts; turn it on (or remote_write)"
        )
