"""How alembic runs here: on a connection it is handed, or offline as SQL for a DBA to review."""

from __future__ import annotations

from typing import Any

from alembic import context

TABLE: dict[str, Any] = {
    "version_table": "sendledger_schema_version",
    "version_table_schema": "public",
    "transaction_per_migration": True,
}


def main() -> None:
    """Run the revisions the configuration asks for."""
    connection = context.config.attributes.get("connection")
    if connection is None:
        context.configure(dialect_name="postgresql", literal_binds=True, **TABLE)
    else:
        context.configure(connection=connection, **TABLE)
    with context.begin_transaction():
        context.run_migrations()


main()
