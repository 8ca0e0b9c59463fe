"""Rivals: attempts that look alike to a provider, so that what it shows of one may be another's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sendledger.store import looking
from sendledger.store.database import Database
from sendledger.store.looking import AskedRow, Key
from sendledger.work.asking import Asking

SLACK = timedelta(minutes=5)
"""How far a provider's clock and ours may be apart, both ways together."""


class Rivals:
    """Looks for the rivals of one channel's attempts."""

    def __init__(self, database: Database, channel: str, asking: Asking) -> None:
        self._database, self._channel, self._asking = database, channel, asking

    async def rivalled(self, rows: Sequence[AskedRow]) -> set[Key]:
        """Return which of *rows* have a rival: undecided too, the same words to the same destination then.

        Asked for after the provider has answered: whose message it shows was opened before that.
        """
        if not rows:
            return set()
        async with self._database.connection() as connection:
            pairs = await looking.find_rivals(
                connection, self._channel, [row.key for row in rows], slack=SLACK
            )
            others = await looking.load_asked(connection, sorted({i for _, (i, _) in pairs}))
        messages = {row.key: await self._asking.message(row) for row in (*rows, *others)}
        return {one for one, other in pairs if _alike(messages[one], messages[other])}


def _alike(one: bytes | None, other: bytes | None) -> bool:
    """Whether two messages could be taken for each other; also where nobody can tell any more."""
    return one is None or other is None or one == other
