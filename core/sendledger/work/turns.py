"""Turns: what a channel and each destination domain may start per second, dealt by the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sendledger.ledger.limits import Limits, burst, interval_us
from sendledger.store import limits as store
from sendledger.store.database import Database
from sendledger.store.deliveries import Claimed
from sendledger.store.limits import Ask, Turns

HORIZON = timedelta(hours=1)
"""How far away a row that got no turn is put at most; then it asks again."""

Postponed = list[tuple[Claimed, datetime]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How many rows may go now, and the turns they use."""

    rows: int
    turns: Turns | None = None

    def left(self, going: int) -> bool:
        """Whether more may go at once when *going* do."""
        return self.turns is None or going < self.rows


class TurnTaking:
    """The rate limits of one channel."""

    def __init__(self, database: Database, channel: str, limits: Limits) -> None:
        self._database, self._channel, self._limits = database, channel, limits

    @property
    def rest(self) -> timedelta | None:
        """How long to rest once the turns are used up: until half a burst is free; None without a rate."""
        rate = self._limits.per_second
        if rate is None:
            return None
        return timedelta(microseconds=interval_us(rate)) * max(1, burst(rate) // 2)

    def queue_max(self, rows: int) -> int:
        """Return how many rows may wait for a slot instead of *rows*: with a rate, no more than a burst.

        Whatever waits goes as soon as there is a slot, however long ago its turn was.
        """
        rate = self._limits.per_second
        return rows if rate is None else min(rows, burst(rate))

    async def allow(self, wanted: int) -> Allowance:
        """Take up to *wanted* turns of the channel."""
        rate = self._limits.per_second
        if rate is None or not wanted:
            return Allowance(rows=wanted)
        ask = _ask(f"channel:{self._channel}", wanted, rate)
        async with self._database.connection() as connection:
            dealt = await store.take_turns(connection, [ask], horizon=HORIZON, queueing=False)
        turns = dealt[ask.scope_key]
        return Allowance(rows=turns.granted, turns=turns)

    async def settle(self, allowance: Allowance, going: int) -> None:
        """Give back the turns that no row uses: none was due, or what was due may not go."""
        unused = allowance.rows - going
        if allowance.turns is not None and unused > 0:
            async with self._database.connection() as connection:
                await store.return_turns(connection, allowance.turns, unused)

    async def sift(self, rows: Sequence[Claimed]) -> tuple[list[Claimed], Postponed]:
        """Separate rows whose domain has a turn from those that come again, each with its instant."""
        rate = self._limits.domain_per_second
        if rate is None or not rows:
            return list(rows), []
        domains: defaultdict[str, list[Claimed]] = defaultdict(list)
        going = [row for row in rows if row.domain_key is None]
        for row in rows:
            if row.domain_key is not None:
                domains[f"domain:{self._channel}/{row.domain_key.hex()}"].append(row)
        asks = [_ask(scope_key, len(found), rate) for scope_key, found in domains.items()]
        async with self._database.connection() as connection:
            dealt = await store.take_turns(connection, asks, horizon=HORIZON, queueing=True)
        later: Postponed = []
        for scope_key, found in domains.items():
            turns = dealt[scope_key]
            going += found[: turns.granted]
            later += [
                (row, turns.again_at + place * turns.step)
                for place, row in enumerate(found[turns.granted :])
            ]
        return going, later


def _ask(scope_key: str, wanted: int, rate: float) -> Ask:
    return Ask(scope_key=scope_key, wanted=wanted, interval_us=interval_us(rate), burst=burst(rate))
