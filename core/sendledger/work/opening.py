"""Opening attempts by group commit, and finding out what an unknown COMMIT did."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sendledger.journal.open import find_opened, open_attempts
from sendledger.store.attempts import Opening, Terms
from sendledger.store.database import Database, DatabaseAway, DatabaseError
from sendledger.work.group import GroupCommit

GROUP_MAX = 100
_PAUSE_S = 0.25


class Openings:
    """Opens the attempts of one channel. Only a True answer lets anything go to a sender."""

    def __init__(self, database: Database, terms: Terms) -> None:
        self._database = database
        self._terms = terms
        self.groups: GroupCommit[Opening, bool] = GroupCommit(self._commit, group_max=GROUP_MAX)

    async def _commit(self, openings: Sequence[Opening]) -> list[bool]:
        try:
            opened = await open_attempts(self._database, openings, self._terms)
        except DatabaseAway:
            opened = await self._reread(openings)
        except DatabaseError:
            if len(openings) == 1:
                raise
            return [(await self._alone(opening)) for opening in openings]
        return [opening.intent_id in opened for opening in openings]

    async def _alone(self, opening: Opening) -> bool:
        try:
            return (await self._commit([opening]))[0]
        except DatabaseError:
            return False

    async def _reread(self, openings: Sequence[Opening]) -> set[int]:
        """Ask until the database answers: an attempt that did commit is ours to account for."""
        while True:
            try:
                return await find_opened(self._database, openings)
            except DatabaseAway:
                await asyncio.sleep(_PAUSE_S)
