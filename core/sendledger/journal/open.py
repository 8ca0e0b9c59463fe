"""Opening attempts in groups, within the channel's limits; an unknown COMMIT is re-read, never assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sendledger.ledger.limits import Limits, fit
from sendledger.store import attempts
from sendledger.store import limits as limiting
from sendledger.store.attempts import Opening, Terms
from sendledger.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Intent ids: those that may go to a sender, and those for which a limit left no room."""

    opened: set[int]
    domain_full: set[int] = field(default_factory=set)
    channel_full: set[int] = field(default_factory=set)


async def open_attempts(database: Database, openings: Sequence[Opening], terms: Terms) -> set[int]:
    """Open attempts in one commit; returns the intent ids that may go to a sender.

    Raises ``DatabaseAway`` when it is unknown whether the commit happened: then :func:`find_opened`
    tells, once the database answers again.
    """
    async with database.connection() as connection:
        return await attempts.open_attempts(connection, openings, terms)


async def open_within(
    database: Database, channel: str, openings: Sequence[Opening], terms: Terms, limits: Limits
) -> Opened:
    """As :func:`open_attempts`, with at most as many open at once as *limits* allow, over all workers."""
    async with database.transaction() as connection:
        await limiting.hold_channel(connection, channel)
        open_now = await limiting.count_open(connection, channel)
        wanted = [(opening, opening.domain_key) for opening in openings]
        found = fit(wanted, open_now, limits)
        opened = (
            await attempts.open_attempts(connection, found.fits, terms) if found.fits else set()
        )
    return Opened(
        opened=opened,
        domain_full={opening.intent_id for opening in found.domain_full},
        channel_full={opening.intent_id for opening in found.channel_full},
    )


async def find_opened(database: Database, openings: Sequence[Opening]) -> set[int]:
    """Return the intent ids whose attempt does stand in the ledger under these claims."""
    async with database.connection() as connection:
        return await attempts.find_opened(connection, openings)
