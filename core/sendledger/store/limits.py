"""Limits that all workers share: turns per second, and attempts in flight. The database keeps both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg.rows import class_row

from sendledger.store.columns import array, columns
from sendledger.store.database import Connection
from sendledger.store.statements import statement

LIMIT_LOCK = 0x5E4D

_TAKE_TURNS = statement("take_turns")
_MAKE_TURNS = statement("make_turns")
_RETURN_TURNS = statement("return_turns")
_HOLD_CHANNEL = statement("hold_channel")
_COUNT_OPEN = statement("count_open")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """How many turns of a scope are wanted, how far apart they are, and how many may come at once."""

    scope_key: str
    wanted: int
    interval_us: int
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """What was dealt: the rest should come again from ``again_at`` on, one ``step`` after the other.

    ``next_at`` is when the turn after those is free.
    """

    scope_key: str
    granted: int
    next_at: datetime
    again_at: datetime
    step: timedelta


async def take_turns(
    connection: Connection, asks: Sequence[Ask], *, horizon: timedelta, queueing: bool
) -> dict[str, Turns]:
    """Take turns of several scopes at once.

    With *queueing* the rows left over are lined up behind those told earlier, at most *horizon* away.
    """
    ordered = sorted(asks, key=lambda ask: ask.scope_key)
    dealt = await _take(connection, ordered, horizon=horizon, queueing=queueing)
    # Not in one statement: that would not see the rows it made itself, and charge them nothing.
    if missing := [ask for ask in ordered if ask.scope_key not in dealt]:
        await connection.execute(
            _MAKE_TURNS, {"scope_keys": array([ask.scope_key for ask in missing])}
        )
        dealt |= await _take(connection, missing, horizon=horizon, queueing=queueing)
    return dealt


async def _take(
    connection: Connection, asks: Sequence[Ask], *, horizon: timedelta, queueing: bool
) -> dict[str, Turns]:
    wanted = columns(Ask, asks)
    parameters = {
        "scope_keys": wanted["scope_key"],
        "wanted": wanted["wanted"],
        "intervals_us": wanted["interval_us"],
        "bursts": wanted["burst"],
        "horizon": horizon,
        "queueing": queueing,
    }
    async with connection.cursor(row_factory=class_row(Turns)) as cursor:
        await cursor.execute(_TAKE_TURNS, parameters)
        return {turns.scope_key: turns for turns in await cursor.fetchall()}


async def return_turns(connection: Connection, turns: Turns, unused: int) -> None:
    """Give *unused* turns back, unless others took turns since; then they are lost, a moment's worth."""
    parameters = {
        "scope_key": turns.scope_key,
        "turns": unused,
        "step": turns.step,
        "next_at": turns.next_at,
    }
    await connection.execute(_RETURN_TURNS, parameters)


async def hold_channel(connection: Connection, channel: str) -> None:
    """Be the only one to open attempts of *channel* until the transaction ends."""
    await connection.execute(_HOLD_CHANNEL, {"limit_lock": LIMIT_LOCK, "channel": channel})


async def count_open(connection: Connection, channel: str) -> dict[bytes | None, int]:
    """Return how many attempts of *channel* are open, by destination domain."""
    cursor = await connection.execute(_COUNT_OPEN, {"channel": channel})
    return dict(await cursor.fetchall())
