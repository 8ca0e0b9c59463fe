"""Which schema a database has and this code needs. Asked at every start, so nothing of alembic is imported."""

from __future__ import annotations

from importlib.resources import files
from uuid import UUID

import psycopg

from sendledger.store.database import DatabaseAway, DatabaseRefused

_REASONS = {
    "connection refused": "connection refused",
    "password authentication failed": "password authentication failed",
    "does not exist": "no such database or role",
    "translate host name": "no such host",
    "failed to resolve host": "no such host",
    "too many clients": "too many clients",
    "timeout": "timeout",
}
_REVISION = "SELECT version_num FROM public.sendledger_schema_version"


class SchemaError(Exception):
    """The database and this code do not fit each other; names both versions."""


def known_revisions() -> list[str]:
    """Return the revisions this code brings, oldest first: a revision is how its file's name begins."""
    names = (file.name for file in (files("sendledger_migrations") / "versions").iterdir())
    return sorted(name.partition("_")[0] for name in names if name[:1].isdigit())


def head_revision() -> str:
    """Return the revision this code was written for."""
    return known_revisions()[-1]


def schema_revision(dsn: str) -> str | None:
    """Return the revision of the database, or None when it has no schema of ours.

    Raises ``DatabaseAway`` and ``DatabaseRefused`` when it cannot be reached.
    """
    with connect(dsn, autocommit=True) as connection:
        return read_revision(connection)


def read_revision(connection: psycopg.Connection) -> str | None:
    """As :func:`schema_revision`, on a connection that commits each statement."""
    try:
        row = connection.execute(_REVISION).fetchone()
    except psycopg.errors.UndefinedTable:
        return None
    except psycopg.errors.InsufficientPrivilege:
        raise DatabaseRefused(
            "the role of the DSN may not read public.sendledger_schema_version: use the role that migrated"
            " the database, or grant it the tables of the schemas public and sendledger"
        ) from None
    return None if row is None else str(row[0])


def check_schema(dsn: str) -> None:
    """Raise :class:`SchemaError` unless the database is exactly at the revision of this code.

    Raises ``DatabaseAway`` and ``DatabaseRefused`` when it cannot be reached.
    """
    found, wanted = schema_revision(dsn), head_revision()
    refuse_newer(found, wanted)
    if found != wanted:
        raise SchemaError(
            f"the database is at schema {found or 'none'}, this version needs {wanted}:"
            " run `sendledger db migrate`"
        )


def refuse_newer(found: str | None, wanted: str) -> None:
    """Raise :class:`SchemaError` when *found* is a revision that this code does not know."""
    if found is not None and found not in known_revisions():
        raise SchemaError(
            f"the database is at schema {found}, newer than the {wanted} this version knows:"
            " install the version that migrated it, or a later one"
        )


def bind(guard: psycopg.Connection, installation_id: UUID) -> None:
    """Bind the database to *installation_id* if it is bound to none. Raises :class:`SchemaError`."""
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


def connect(dsn: str, *, autocommit: bool = False) -> psycopg.Connection:
    """Connect, or raise ``DatabaseAway`` or ``DatabaseRefused``, which quote nothing of *dsn*."""
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
