"""Turns: what all workers together may start per second, dealt by the database and by its clock."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

import ledger_rig
from ledger_rig import Rig
from sendledger.ledger.limits import Limits, burst, interval_us
from sendledger.store import limits
from sendledger.store.database import Connection, Database
from sendledger.store.deliveries import Claimed
from sendledger.store.limits import Ask, Turns
from sendledger.work.turns import HORIZON, TurnTaking

SECOND = timedelta(seconds=1)
LASTS_S = 2.4
"""How long takers take: a little, a rest, and more than a second."""

RESTS = (timedelta(milliseconds=100), timedelta(milliseconds=1100))
"""When, after they began, nobody takes any."""

TAKERS = 4
SEED = 5550100


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Turns that were used, and between which instants of the database's clock they were dealt."""

    after: datetime
    before: datetime
    used: int


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig


def ask(rate: float, wanted: int, scope_key: str = "channel:mail") -> Ask:
    return Ask(scope_key=scope_key, wanted=wanted, interval_us=interval_us(rate), burst=burst(rate))


async def take(
    database: Database, *asks: Ask, queueing: bool = False, horizon: timedelta = HORIZON
) -> dict[str, Turns]:
    async with database.connection() as connection:
        return await limits.take_turns(connection, asks, horizon=horizon, queueing=queueing)


async def take_one(database: Database, wanted: Ask, **how: Any) -> Turns:
    return (await take(database, wanted, **how))[wanted.scope_key]


async def clock(connection: Connection) -> datetime:
    cursor = await connection.execute("SELECT clock_timestamp()")
    row = await cursor.fetchone()
    assert row is not None
    now: datetime = row[0]
    return now


async def stands_at(rig: Rig, scope_key: str = "channel:mail") -> datetime:
    [row] = await rig.rows("SELECT next_at FROM sendledger.turn WHERE scope_key = %s", scope_key)
    at: datetime = row["next_at"]
    return at


# --- never more than the limit -----------------------------------------------------------------


def busiest_second(taken: Sequence[Taken]) -> int:
    """Return the most turns that were certainly dealt within one second."""
    return max(
        sum(
            other.used
            for other in taken
            if other.after >= first.after and other.before <= first.after + SECOND
        )
        for first in taken
    )


async def taking(dsn: str, rate: float, chance: random.Random) -> list[Taken]:
    """Take turns by a connection of its own for a while, and give some back, soon or late.

    All takers rest at the same time, so that turns pile up, and then want as many as they can get.
    """
    taken: list[Taken] = []
    began: datetime | None = None
    ends = time.monotonic() + LASTS_S
    async with Database(dsn, connections_max=1) as database, database.connection() as connection:
        while time.monotonic() < ends:
            wanted = ask(rate, chance.randint(1, 1 + 2 * burst(rate)))
            after = await clock(connection)
            began = began or after
            if RESTS[0] <= after - began < RESTS[1]:
                continue
            dealt = await limits.take_turns(connection, [wanted], horizon=HORIZON, queueing=False)
            before = await clock(connection)
            turns = dealt[wanted.scope_key]
            unused = chance.choice([0, 0, 0, turns.granted, turns.granted // 2])
            if unused:
                for _ in range(chance.choice([0, 0, 5, 50])):
                    await clock(connection)
                await limits.return_turns(connection, turns, unused)
            if turns.granted > unused:
                taken.append(Taken(after=after, before=before, used=turns.granted - unused))
    return taken


@pytest.mark.parametrize("rate", [1, 40, 300])
@pytest.mark.usefixtures("rig")
async def test_no_second_sees_more_than_the_limit_however_many_take_and_give_back(
    shared_database: str, rate: float
) -> None:
    """By a fifth or one at most."""
    chances = [random.Random(SEED + n) for n in range(TAKERS)]
    shares = await asyncio.gather(*(taking(shared_database, rate, c) for c in chances))
    taken = [turn for share in shares for turn in share]
    assert taken
    assert busiest_second(taken) <= rate * 1.2 + 1


async def test_what_turns_were_dealt_outlives_the_server(rig: Rig) -> None:
    [table] = await rig.rows(
        "SELECT relpersistence = 'p' AS logged FROM pg_class WHERE oid = 'sendledger.turn'::regclass"
    )
    assert table["logged"]


# --- whoever asks gets an answer ---------------------------------------------------------------


async def test_a_scope_that_all_meet_for_the_first_time_is_dealt_once(rig: Rig) -> None:
    """Whoever loses the race to make it sees it a moment later, and is told when to come again."""
    for n in range(30):
        scope_keys = [f"domain:mail/{n}/{letter}" for letter in "abc"]
        asked = [ask(1, 3, scope_key) for scope_key in scope_keys]
        found = await asyncio.gather(*(take(rig.database, *asked) for _ in range(8)))
        for scope_key in scope_keys:
            assert sum(dealt[scope_key].granted for dealt in found) == 1


async def test_takers_of_many_scopes_in_any_order_never_wait_for_each_other_in_a_circle(
    rig: Rig,
) -> None:
    chance = random.Random(SEED)
    asked = [ask(50, 2, f"domain:mail/{n}") for n in range(30)]

    async def some() -> None:
        for _ in range(40):
            await take(rig.database, *chance.sample(asked, 12), queueing=True)

    await asyncio.gather(*(some() for _ in range(8)))
    [row] = await rig.rows("SELECT count(*) FROM sendledger.turn")
    assert row["count"] == 30


@pytest.mark.parametrize("wanted", [0, 1, 500])
async def test_nobody_gets_more_turns_than_they_asked_for(rig: Rig, wanted: int) -> None:
    turns = await take_one(rig.database, ask(1000, wanted))
    assert turns.granted == min(wanted, burst(1000))


async def test_a_rate_below_one_a_second_deals_one_turn_and_says_when_the_next_is(rig: Rig) -> None:
    rate = 1 / 60
    first = await take_one(rig.database, ask(rate, 5))
    second = await take_one(rig.database, ask(rate, 5))
    assert (first.granted, second.granted) == (1, 0)
    assert first.step == timedelta(seconds=60)
    assert second.again_at == first.next_at
    async with rig.database.connection() as connection:
        now = await clock(connection)
    assert timedelta(seconds=50) < second.again_at - now <= timedelta(seconds=60)


# --- giving back -------------------------------------------------------------------------------


async def give_back(rig: Rig, turns: Turns, unused: int) -> None:
    async with rig.database.connection() as connection:
        await limits.return_turns(connection, turns, unused)


async def test_turns_given_back_at_once_are_there_for_the_next(rig: Rig) -> None:
    slow = ask(5 / 3600, 5)
    turns = await take_one(rig.database, slow)
    assert (await take_one(rig.database, slow)).granted == 0
    await give_back(rig, turns, 1)
    assert (await take_one(rig.database, slow)).granted == 1


async def test_turns_given_back_after_others_took_some_are_lost(rig: Rig) -> None:
    """The others got theirs because time had passed; with ours there would be two bursts in a moment."""
    turns = await take_one(rig.database, ask(100, 20))
    await rig.run("UPDATE sendledger.turn SET next_at = next_at - interval '1 minute'")
    turns = replace(turns, next_at=await stands_at(rig))
    assert (await take_one(rig.database, ask(100, 20))).granted == 20
    stood = await stands_at(rig)
    await give_back(rig, turns, 20)
    assert await stands_at(rig) == stood


async def test_an_idle_channel_leaves_its_turns_as_they_were(rig: Rig) -> None:
    taking = TurnTaking(rig.database, "mail", Limits(per_second=1 / 60))
    for _ in range(3):
        allowance = await taking.allow(10)
        assert allowance.rows == 1
        assert allowance.left(0)
        await taking.settle(allowance, 0)
    used = await taking.allow(10)
    await taking.settle(used, 1)
    assert not used.left(1)
    assert (await taking.allow(10)).rows == 0


async def test_without_a_rate_nothing_is_asked_and_nothing_is_kept(rig: Rig) -> None:
    taking = TurnTaking(rig.database, "mail", Limits())
    allowance = await taking.allow(10)
    await taking.settle(allowance, 3)
    assert (allowance.rows, allowance.left(10), taking.rest) == (10, True, None)
    assert await rig.rows("SELECT * FROM sendledger.turn") == []


# --- what waits in a domain's line -------------------------------------------------------------


@pytest.fixture
async def rows(rig: Rig) -> list[Claimed]:
    """Return claimed rows, all of one domain."""
    await rig.plan(30)
    return [row._replace(domain_key=b"d" * 16) for row, _ in await rig.claim(30)]


def instants(later: Iterable[tuple[Claimed, datetime]]) -> list[datetime]:
    return [at for _, at in later]


async def test_rows_without_a_turn_come_again_one_after_the_other_in_their_order(
    rig: Rig, rows: list[Claimed]
) -> None:
    """Those of a second claim, by this worker or another, come after those of the first."""
    rate = Limits(domain_per_second=10)
    going, later = await TurnTaking(rig.database, "mail", rate).sift(rows[:20])
    going_too, later_too = await TurnTaking(rig.database, "mail", rate).sift(rows[20:])
    assert going == rows[:2]
    assert [row for row, _ in later + later_too] + going_too == rows[2:]
    steps = {after - before for before, after in pairwise(instants(later + later_too))}
    assert steps == {timedelta(seconds=0.1)}


async def test_rows_of_other_domains_and_of_none_do_not_wait_in_a_full_line(
    rig: Rig, rows: list[Claimed]
) -> None:
    taking = TurnTaking(rig.database, "mail", Limits(domain_per_second=1))
    await taking.sift(rows[:10])
    other, none = rows[10]._replace(domain_key=b"o" * 16), rows[11]._replace(domain_key=None)
    going, later = await taking.sift([*rows[12:15], other, none])
    assert {row.intent_id for row in going} == {other.intent_id, none.intent_id}
    assert len(later) == 3


async def test_no_row_is_sent_further_away_than_the_horizon_and_a_claim_of_its_own(
    rig: Rig, rows: list[Claimed]
) -> None:
    taking = TurnTaking(rig.database, "mail", Limits(domain_per_second=1))
    await taking.sift(rows[:2])
    await rig.run("UPDATE sendledger.turn SET tail_at = now() + interval '9 days'")
    _, later = await taking.sift(rows[2:])
    now = datetime.now(UTC)
    assert max(instants(later)) <= now + HORIZON + len(later) * SECOND + SECOND
    assert len(set(instants(later))) == len(later)


async def test_a_line_that_is_asked_when_its_rows_come_again_lets_all_of_them_go(
    rig: Rig, rows: list[Claimed]
) -> None:
    """Played to the end with its real clock, at 100 a second, by two workers."""
    workers = [TurnTaking(rig.database, "mail", Limits(domain_per_second=100)) for _ in range(2)]
    waiting = [(rows[0].claimed_at, row) for row in rows]
    gone: list[int] = []
    deadline = time.monotonic() + 20
    while waiting:
        assert time.monotonic() < deadline, f"{len(waiting)} rows never got a turn"
        for worker in workers:
            async with rig.database.connection() as connection:
                now = await clock(connection)
            due = [row for at, row in waiting if at <= now][:5]
            waiting = [(at, row) for at, row in waiting if row not in due]
            going, later = await worker.sift(due)
            gone += [row.intent_id for row in going]
            waiting += [(at, row) for row, at in later]
    assert sorted(gone) == sorted(row.intent_id for row in rows)
