"""Bring a database to the schema this code was written for, once, whoever else is starting."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from uuid import UUID

import psycopg
import sqlalchemy
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from sendledger.store.database import DatabaseAway, DatabaseRefused

LOCK = 0x5E4D1ED6
_WAIT_S = 0.05
_REASONS = {
    "connection refused": "connection refused",
    "password authentication failed": "password authentication failed",
    "does not exist": "no such database or role",
    "translate host name": "no such host",
    "failed to resolve host": "no such host",
    "too many clients": "too many clients",
    "timeout": "timeout",
}
_VERSION_TABLE = {
    "version_table": "sendledger_schema_version",
    "version_table_schema": "public",
}


class SchemaError(Exception):
    """The database and this code do not fit each other; names both versions."""


def migrate(dsn: str, *, installation_id: UUID) -> None:
    """Apply what is missing and bind the database to *installation_id* if it is bound to none.

    Safe with several starters at once and after a kill at any instant. Raises :class:`SchemaError`
    when the database is newer than this code or belongs to another installation, ``DatabaseAway`` and
    ``DatabaseRefused`` when it cannot be reached, or only through a pooler.
    """
    with _connect(dsn, autocommit=True) as guard, _alone(_direct(guard)):
        config = _config()
        engine = _engine(dsn)
        try:
            with engine.connect() as connection:
                _refuse_newer(_current(connection), head_revision())
                connection.rollback()
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
                connection.commit()
        finally:
            engine.dispose()
        _bind(guard, installation_id)


def offline_sql() -> str:
    """Return the SQL of every revision, for a DBA to review."""
    out = io.StringIO()
    config = _config()
    config.output_buffer = out
    command.upgrade(config, "head", sql=True)
    return out.getvalue()


def head_revision() -> str:
    """Return the revision this code was written for."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def schema_revision(dsn: str) -> str | None:
    """Return the revision of the database, or None when it has no schema of ours.

    Raises ``DatabaseAway`` and ``DatabaseRefused`` when it cannot be reached.
    """
    engine = _engine(dsn)
    try:
        with engine.connect() as connection:
            return _current(connection)
    finally:
        engine.dispose()


def check_schema(dsn: str) -> None:
    """Raise :class:`SchemaError` unless the database is exactly at the revision of this code.

    Raises ``DatabaseAway`` and ``DatabaseRefused`` when it cannot be reached.
    """
    found, wanted = schema_revision(dsn), head_revision()
    _refuse_newer(found, wanted)
    if found != wanted:
        raise SchemaError(
            f"the database is at schema {found or 'none'}, this version needs {wanted}:"
            " run `sendledger db migrate`"
        )


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


def _bind(guard: psycopg.Connection, installation_id: UUID) -> None:
    guard.execute(
        "INSERT INTO sendledger.installation (installation_id) VALUES (%s) ON CONFLICT DO NOTHING",
        [installation_id],
    )
    row = guard.execute("SELECT installation_id FROM sendledger.installation").fetchone()
    if row is None or row[0] != installation_id:
        raise SchemaError(
            "this database belongs to another installation: its identity differs from the one in"
            " the key file; use the key file that was made with it, or an empty database"
        )


def _refuse_newer(found: str | None, wanted: str) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if found is not None and found not in known:
        raise SchemaError(
            f"the database is at schema {found}, newer than the {wanted} this version knows:"
            " install the version that migrated it, or a later one"
        )


def _connect(dsn: str, *, autocommit: bool = False) -> psycopg.Connection:
    try:
        return psycopg.connect(dsn, autocommit=autocommit)
    except psycopg.OperationalError as error:
        # Never the text itself: of a misspelt DSN it quotes parts, and one may be the password.
        said = str(error).lower()
        why = next((why for sign, why in _REASONS.items() if sign in said), "no connection")
        raise DatabaseAway(
            f"the database cannot be reached ({why}): see that it runs, and where the DSN points"
        ) from None
    except psycopg.ProgrammingError:
        raise DatabaseRefused(
            "the DSN cannot be read: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with"
            " special characters percent-encoded"
        ) from None


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("sendledger_migrations")))
    return config


def _engine(dsn: str) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: _connect(dsn),
        poolclass=sqlalchemy.pool.NullPool,
    )


def _current(connection: sqlalchemy.Connection) -> str | None:
    context = MigrationContext.configure(connection, opts=_VERSION_TABLE)
    return context.get_current_revision()
