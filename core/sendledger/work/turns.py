"""Turns: what a channel and each destination domain may start per second, dealt by the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sendledger.ledger.limits import Limits, burst, interval_us
from sendledger.store import limits as store
from sendledger.store.database import Connection
from sendledger.store.deliveries import Claimed
from sendledger.store.limits import Ask, Turns

HORIZON = timedelta(hours=1)
"""How far away a row that got no turn is put at most; then it asks again."""

Postponed = list[tuple[Claimed, datetime]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How many rows may be claimed now, the turns they use, and how long until the next is free."""

    rows: int
    turns: Turns | None = None

    @property
    def wait(self) -> timedelta | None:
        """Return how long to rest before asking again; None when nothing limits."""
        return None if self.turns is None else self.turns.step


class TurnTaking:
    """The rate limits of one channel."""

    def __init__(self, channel: str, limits: Limits) -> None:
        self._channel, self._limits = channel, limits

    @property
    def limits_domains(self) -> bool:
        """Whether destination domains have a rate."""
        return self._limits.domain_per_second is not None

    async def allow(self, connection: Connection, wanted: int) -> Allowance:
        """Take up to *wanted* turns of the channel."""
        rate = self._limits.per_second
        if rate is None:
            return Allowance(rows=wanted)
        ask = _ask(f"channel:{self._channel}", wanted, rate)
        dealt = await store.take_turns(connection, [ask], horizon=HORIZON, queueing=False)
        turns = dealt[ask.scope_key]
        return Allowance(rows=turns.granted, turns=turns)

    async def settle(self, connection: Connection, allowance: Allowance, claimed: int) -> None:
        """Give back the turns for which no row was due."""
        unused = allowance.rows - claimed
        if allowance.turns is not None and unused > 0:
            await store.return_turns(connection, allowance.turns, unused)

    async def sift(
        self, connection: Connection, rows: Sequence[Claimed]
    ) -> tuple[list[Claimed], Postponed]:
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
