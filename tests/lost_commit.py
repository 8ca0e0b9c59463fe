"""A database that loses the answer to a COMMIT."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from acceptance.statement_proxy import Side, StatementProxy
from sendledger.store.database import Database

COMMITS = ("COMMIT", "open_attempts", "record_accepted")
"""What commits: the word itself, and the statements that are transactions of their own."""


@asynccontextmanager
async def cut_at_commit(dsn: str, *, applied: bool) -> AsyncIterator[Database]:
    """Lend a database whose first COMMIT is applied or not, and whose answer is lost either way."""
    cuts: list[str] = []

    def watch(statement: str, side: Side) -> bool:
        here = Side.AFTER if applied else Side.BEFORE
        if cuts or side is not here or not statement.startswith(COMMITS):
            return False
        cuts.append(statement)
        return True

    async with (
        StatementProxy(dsn, watch) as proxy,
        Database(proxy.dsn, connections_max=3) as database,
    ):
        yield database
    assert len(cuts) == 1
