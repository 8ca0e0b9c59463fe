"""Bring a database to the schema this code was written for, once, whoever else is starting."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING
from uuid import UUID

import psycopg

from sendledger.store.database import DatabaseRefused
from sendledger.store.schema import bind, connect, head_revision, read_revision, refuse_newer

if TYPE_CHECKING:
    from alembic.config import Config

LOCK = 0x5E4D1ED6
_WAIT_S = 0.05

# alembic and SQLAlchemy are imported where a schema is really changed: they take longer to load than
# most commands take to run, and nearly every start finds its schema as it should be.


def migrate(dsn: str, *, installation_id: UUID) -> None:
    """Apply what is missing and bind the database to *installation_id* if it is bound to none.

    Safe with several starters at once and after a kill at any instant. Raises ``SchemaError``
    when the database is newer than this code or belongs to another installation, ``DatabaseAway`` and
    ``DatabaseRefused`` when it cannot be reached, or only through a pooler.
    """
    with connect(dsn, autocommit=True) as guard, _alone(_direct(guard)):
        found, wanted = read_revision(guard), head_revision()
        refuse_newer(found, wanted)
        if found != wanted:
            _upgrade(dsn)
        bind(guard, installation_id)


def _upgrade(dsn: str) -> None:
    import sqlalchemy  # noqa: PLC0415
    from alembic import command  # noqa: PLC0415

    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: connect(dsn),
        poolclass=sqlalchemy.pool.NullPool,
    )
    config = _config()
    try:
        with engine.connect() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.commit()
    finally:
        engine.dispose()


def offline_sql() -> str:
    """Return the SQL of every revision, for a DBA to review."""
    from alembic import command  # noqa: PLC0415

    out = io.StringIO()
    config = _config()
    config.output_buffer = out
    command.upgrade(config, "head", sql=True)
    return out.getvalue()


def _direct(guard: psycopg.Connection) -> psycopg.Connection:
    row = guard.execute("SELECT pg_backend_pid()").fetchone()
    if row is None or row[0] != guard.info.backend_pid:
        raise DatabaseRefused(
            "the DSN leads through a connection pooler, where nobody can migrate alone: give the way past"
            " it as database.direct_dsn"
        )
    return guard


@contextmanager
def _alone(guard: psycopg.Connection) -> Iterator[None]:
    # Polled, never blocking: a session that waits inside pg_advisory_lock() holds a snapshot, and
    # another starter's CREATE INDEX CONCURRENTLY would wait for that snapshot: a deadlock.
    while not _locked(guard):
        time.sleep(_WAIT_S)
    try:
        yield
    finally:
        guard.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


def _locked(guard: psycopg.Connection) -> bool:
    row = guard.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone()
    return bool(row and row[0])


def _config() -> Config:
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(files("sendledger_migrations")))
    return config
