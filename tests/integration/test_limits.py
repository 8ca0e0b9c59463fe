"""Limits on what is in flight: kept by the database over all workers, also over dead ones."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import pytest

import ledger_rig
from findings import accepted
from ledger_rig import Rig
from sendledger.journal.advance import Entry
from sendledger.journal.open import Opened, open_within
from sendledger.ledger.limits import Limits
from sendledger.store import limits as limiting
from sendledger.store.attempts import Opening
from sendledger.store.database import Database
from sendledger.store.deliveries import Claimed
from sendledger.work.proposals import lost

SEED = 5550101
DOMAINS = (b"domain-a", b"domain-b", None)

Claim = tuple[Claimed, UUID]


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig
        assert await rig.verify() == []


async def claimed(rig: Rig, count: int) -> list[Claim]:
    """Plan and claim rows of two domains and of none, in turn."""
    ids = await rig.plan(count)
    for place, domain in enumerate(DOMAINS):
        if domain is not None:
            members = ids[place :: len(DOMAINS)]
            await rig.tamper(
                f"UPDATE sendledger.intent SET domain_key = '\\x{domain.hex()}'"
                f" WHERE intent_id IN ({', '.join(map(str, members))})"
            )
    return await rig.claim(count)


def opening(rig: Rig, claim: Claim) -> Opening:
    return rig.opening(*claim)._replace(domain_key=claim[0].domain_key)


async def open_some(
    rig: Rig, claims: Sequence[Claim], limits: Limits, database: Database | None = None
) -> Opened:
    openings = [opening(rig, claim) for claim in claims]
    return await open_within(database or rig.database, "mail", openings, rig.terms, limits)


async def count_open(rig: Rig) -> Counter[bytes | None]:
    async with rig.database.connection() as connection:
        return Counter(await limiting.count_open(connection, "mail"))


async def test_openings_beyond_a_limit_are_refused_and_told_which(rig: Rig) -> None:
    claims = await claimed(rig, 12)
    found = await open_some(rig, claims, Limits(in_flight=5, domain_in_flight=1))
    assert Counter(row.domain_key for row, _ in claims if row.intent_id in found.opened) == {
        b"domain-a": 1, b"domain-b": 1, None: 3,
    }  # fmt: skip
    assert await count_open(rig) == {b"domain-a": 1, b"domain-b": 1, None: 3}
    everybody = {row.intent_id for row, _ in claims}
    assert found.opened | found.domain_full | found.channel_full == everybody
    assert len(found.domain_full) + len(found.channel_full) == 7


@pytest.mark.parametrize(
    "limits",
    [
        Limits(in_flight=6),
        Limits(domain_in_flight=2),
        Limits(in_flight=5, domain_in_flight=2),
    ],
    ids=["channel", "domain", "both"],
)
async def test_two_openers_at_once_never_have_more_open_than_the_limits_and_all_rows_go(
    rig: Rig, shared_database: str, limits: Limits
) -> None:
    """Each opens in groups and records in any order; a third looks on."""
    waiting = await claimed(rig, 90)
    seen: list[Counter[bytes | None]] = []
    ended = asyncio.Event()

    async def look_on() -> None:
        while not ended.is_set():
            seen.append(await count_open(rig))

    async def work(chance: random.Random) -> None:
        async with Database(shared_database, connections_max=2) as database:
            while waiting:
                size = chance.randint(1, 8)
                group, waiting[:size] = waiting[:size], []
                found = await open_some(rig, group, limits, database)
                waiting.extend(claim for claim in group if claim[0].intent_id not in found.opened)
                for intent_id in chance.sample(sorted(found.opened), len(found.opened)):
                    await rig.record(intent_id, accepted())

    watching = asyncio.create_task(look_on())
    await asyncio.gather(work(random.Random(SEED)), work(random.Random(SEED + 1)))
    ended.set()
    await watching

    assert len(seen) > 2
    assert all(found.total() <= (limits.in_flight or 90) for found in seen)
    assert all(
        count <= (limits.domain_in_flight or 90)
        for found in seen
        for domain, count in found.items()
        if domain is not None
    )
    assert max(found.total() for found in seen) > 1
    [row] = await rig.rows("SELECT count(*) FROM sendledger.delivery WHERE status = 'submitted'")
    assert row["count"] == 90


async def test_what_a_dead_worker_left_open_counts_until_it_is_recovered(rig: Rig) -> None:
    """Nobody knows whether its messages are still on their way; the next hop may hold them open."""
    claims, limits = await claimed(rig, 6), Limits(in_flight=3)
    left = (await open_some(rig, claims[:3], limits)).opened
    assert len(left) == 3
    refused = await open_some(rig, claims[3:], limits)
    assert (refused.opened, len(refused.channel_full)) == (set(), 3)

    await rig.run(
        "UPDATE sendledger.delivery SET lease_until = now() - interval '1 minute'"
        " WHERE awaits = 'result'"
    )
    assert (await open_some(rig, claims[3:], limits)).opened == set()

    await rig.recorder.record([Entry(intent_id=intent_id, propose=lost) for intent_id in left])
    assert await count_open(rig) == {}
    assert len((await open_some(rig, claims[3:], limits)).opened) == 3


async def test_the_limit_of_one_channel_is_none_of_another(rig: Rig) -> None:
    await rig.plan(2, report="other", channel="text")
    others = await rig.claim(2, channel="text")
    assert len(await rig.open(*(rig.opening(*claim) for claim in others))) == 2
    found = await open_some(rig, await claimed(rig, 3), Limits(in_flight=2))
    assert len(found.opened) == 2
