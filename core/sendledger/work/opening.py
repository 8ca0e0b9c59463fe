"""Opening attempts by group commit, and finding out what an unknown COMMIT did."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum

from sendledger.journal.group import GroupCommit
from sendledger.journal.open import Opened, find_opened, open_attempts, open_within
from sendledger.metrics.meters import Meters
from sendledger.store.attempts import Opening, Terms
from sendledger.store.database import Database, DatabaseAway, DatabaseError
from sendledger.work.context import GROUPS_AT_ONCE, ChannelWork

_PAUSE_S = 0.25


class Answer(Enum):
    """What became of an opening. Only ``OPENED`` lets anything go to a sender.

    ``REFUSED``: claim, lease, deadline, a pause or a suppression said no. The others: a limit did.
    """

    OPENED = "opened"
    REFUSED = "refused"
    DOMAIN_FULL = "domain full"
    CHANNEL_FULL = "channel full"


class Openings:
    """Opens the attempts of one channel."""

    def __init__(
        self, database: Database, channel: ChannelWork, terms: Terms, meters: Meters
    ) -> None:
        self._database, self._channel, self._terms = database, channel, terms
        self.abandoned = False
        self.groups: GroupCommit[Opening, Answer] = GroupCommit(
            self._commit,
            group_max=channel.group_max,
            at_once=GROUPS_AT_ONCE,
            counted=meters.group("opening"),
        )

    async def _commit(self, openings: Sequence[Opening]) -> list[Answer]:
        try:
            found = await self._open(openings)
        except DatabaseAway:
            found = Opened(opened=await self._reread(openings))
        except DatabaseError:
            if len(openings) == 1:
                raise
            return [(await self._alone(opening)) for opening in openings]
        return [_answer(opening.intent_id, found) for opening in openings]

    async def _open(self, openings: Sequence[Opening]) -> Opened:
        limits = self._channel.limits
        if limits.bounds_flight:
            return await open_within(
                self._database, self._channel.name, openings, self._terms, limits
            )
        return Opened(opened=await open_attempts(self._database, openings, self._terms))

    async def _alone(self, opening: Opening) -> Answer:
        try:
            return (await self._commit([opening]))[0]
        except DatabaseError:
            return Answer.REFUSED

    async def _reread(self, openings: Sequence[Opening]) -> set[int]:
        """Ask until the database answers: an attempt that did commit is ours to account for.

        Abandoned, it is left to its lease: nothing was submitted, and recovery will call it unknown.
        """
        while not self.abandoned:
            try:
                return await find_opened(self._database, openings)
            except DatabaseAway:
                await asyncio.sleep(_PAUSE_S)
        return set()


def _answer(intent_id: int, found: Opened) -> Answer:
    if intent_id in found.opened:
        return Answer.OPENED
    if intent_id in found.channel_full:
        return Answer.CHANNEL_FULL
    return Answer.DOMAIN_FULL if intent_id in found.domain_full else Answer.REFUSED
