"""Opening attempts in groups; an unknown COMMIT is re-read, never assumed."""

from __future__ import annotations

from collections.abc import Sequence

from sendledger.store import attempts
from sendledger.store.attempts import Opening, Terms
from sendledger.store.database import Database


async def open_attempts(database: Database, openings: Sequence[Opening], terms: Terms) -> set[int]:
    """Open attempts in one commit; returns the intent ids that may go to a sender.

    Raises ``DatabaseAway`` when it is unknown whether the commit happened: then :func:`find_opened`
    tells, once the database answers again.
    """
    async with database.connection() as connection:
        return await attempts.open_attempts(connection, openings, terms)


async def find_opened(database: Database, openings: Sequence[Opening]) -> set[int]:
    """Return the intent ids whose attempt does stand in the ledger under these claims."""
    async with database.connection() as connection:
        return await attempts.find_opened(connection, openings)
