"""Claims: as many rows as asked, each to one worker, by an index whatever the planner thinks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

import ledger_rig
from ledger_rig import FAR_OFF, LEASE, LONG_AGO, Rig
from plans import nodes_of, scans
from sendledger.journal import scopes as pausing
from sendledger.ledger.words import Lane
from sendledger.store import deliveries, scopes
from sendledger.store.deliveries import ClaimRequest
from sendledger.store.statements import statement

ROWS = 20_000
HOSTILE = ("hashjoin", "mergejoin", "material", "hashagg", "sort")

FILL = """
WITH b AS (SELECT * FROM sendledger.batch),
added AS (
    INSERT INTO sendledger.intent (batch_id, intent_key, recipient_fingerprint,
        destination_fingerprint, content_digest, eligible_at)
    SELECT b.batch_id, decode(lpad(to_hex(n), 32, '0'), 'hex'), decode(repeat('00', 16), 'hex'),
        decode(lpad(to_hex(n), 32, '0'), 'hex'), decode(repeat('00', 16), 'hex'), now()
    FROM b, generate_series(1, %s) AS n
    RETURNING intent_id, batch_id
)
INSERT INTO sendledger.delivery (intent_id, batch_id, channel, lane, status, awaits, due_at, wake_at)
SELECT a.intent_id, a.batch_id, 'mail', 1, 'planned', 'dispatch', now(),
    now() - a.intent_id * interval '1 ms'
FROM added AS a
"""


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig
        assert await rig.verify() == []


@pytest.fixture
async def big(database: str) -> AsyncIterator[Rig]:
    """Lend a rig on a database whose statistics stay as the test makes them."""
    async with ledger_rig.lend(database) as rig:
        await rig.run("ALTER TABLE sendledger.delivery SET (autovacuum_enabled = false)")
        yield rig


async def fill(rig: Rig, rows: int) -> None:
    await rig.batch()
    await rig.run(FILL, rows)


def request(**changes: Any) -> dict[str, Any]:
    wanted = ClaimRequest(
        channel="mail", lane=Lane.BULK, claim_token=uuid4(), claim_max=50, lease=LEASE
    )
    changed = replace(wanted, **changes)
    return {name: getattr(changed, name) for name in ClaimRequest.__slots__}


async def test_a_claim_uses_its_index_before_and_after_the_table_was_analysed(
    big: Rig, database: str
) -> None:
    await fill(big, ROWS)
    with psycopg.connect(database, autocommit=True) as connection:
        for state in ("never analysed", "analysed"):
            if state == "analysed":
                connection.execute(
                    "ANALYZE sendledger.delivery, sendledger.intent, sendledger.batch"
                )
            nodes = nodes_of(connection, statement("claim_deliveries"), request(claim_max=500))
            assert "delivery_claim" in [node.get("Index Name") for node in nodes], state
            assert scans(nodes, "delivery") == [], state


async def test_a_claim_passes_over_what_somebody_else_has_locked(rig: Rig) -> None:
    locked, *others = await rig.plan(3)
    async with rig.database.transaction() as connection:
        held = "SELECT FROM sendledger.delivery WHERE intent_id = %s FOR UPDATE"
        await connection.execute(held, [locked])
        async with asyncio.timeout(10):
            rows = await rig.claim(3)
    assert sorted(row.intent_id for row, _ in rows) == others


async def test_a_claim_takes_the_oldest_rows_first(rig: Rig) -> None:
    ids = await rig.plan(4)
    for age, intent_id in enumerate(ids):
        await rig.run(
            "UPDATE sendledger.delivery SET wake_at = %s WHERE intent_id = %s",
            LONG_AGO - timedelta(hours=age),
            intent_id,
        )
    assert [row.intent_id for row, _ in await rig.claim(2)] == ids[:1:-1]


async def test_a_claim_takes_only_its_channel_and_lane_and_what_is_due(rig: Rig) -> None:
    await rig.plan(report="other-channel", channel="text")
    await rig.plan(report="other-lane", lane=Lane.TRANSACTIONAL)
    await rig.plan(report="not-yet", eligible_at=FAR_OFF)
    [due] = await rig.plan(report="due")
    assert [row.intent_id for row, _ in await rig.claim(10)] == [due]


@pytest.mark.parametrize("hostile", [False, True], ids=["plain", "hostile-planner"])
@pytest.mark.parametrize("claim_max", [1, 7])
async def test_a_claim_never_takes_more_than_it_was_asked_for(
    big: Rig, claim_max: int, hostile: bool
) -> None:
    await fill(big, 1000)
    async with big.database.connection() as connection:
        for setting in HOSTILE if hostile else ():
            await connection.execute(f"SET enable_{setting} = off".encode())
        wanted = ClaimRequest(**request(claim_max=claim_max))
        rows = await deliveries.claim_deliveries(connection, wanted)
        await connection.execute(b"RESET ALL")
    claimed = await big.rows("SELECT FROM sendledger.delivery WHERE claim_token IS NOT NULL")
    assert len(rows) == len(claimed) == claim_max


async def test_five_claimers_take_every_row_exactly_once(big: Rig) -> None:
    await fill(big, 10_000)

    async def work() -> list[int]:
        taken: list[int] = []
        while rows := await big.claim(400):
            taken += [row.intent_id for row, _ in rows]
        return taken

    shares = await asyncio.gather(*(work() for _ in range(5)))
    taken = [intent_id for share in shares for intent_id in share]
    assert len(taken) == len(set(taken)) == 10_000
    assert sum(1 for share in shares if share) > 1


@pytest.mark.parametrize("scope_key", ["all", "channel:mail"])
async def test_a_paused_channel_claims_nothing(rig: Rig, scope_key: str) -> None:
    await rig.plan(3)
    await pausing.pause(rig.database, scope_key, actor="clerk")
    assert await rig.claim(3) == []


async def test_a_row_of_a_paused_batch_is_claimed_to_be_held(rig: Rig) -> None:
    await rig.plan()
    await pausing.pause(rig.database, "batch:spring", actor="clerk")
    [(row, _)] = await rig.claim(1)
    assert row.paused_scope == "batch:spring"


async def test_a_channel_that_backs_off_is_claimed_by_its_probe_only(rig: Rig) -> None:
    await rig.plan(3)
    async with rig.database.connection() as connection:
        await scopes.begin_back_off(connection, "channel:mail", rule="r", wait=timedelta(hours=1))
        assert await deliveries.claim_deliveries(connection, ClaimRequest(**request())) == []
        probe = ClaimRequest(**request(probing=True, claim_max=1))
        assert len(await deliveries.claim_deliveries(connection, probe)) == 1


async def test_a_claim_given_back_is_claimed_again_and_does_not_count(rig: Rig) -> None:
    [intent_id] = await rig.plan()
    [(row, token)] = await rig.claim()
    assert row.claims == 1
    async with rig.database.connection() as connection:
        assert await deliveries.release_claims(connection, [(intent_id, uuid4())]) == 0
        assert await deliveries.release_claims(connection, [(intent_id, token)]) == 1
    [(again, _)] = await rig.claim()
    assert again.claims == 1


async def test_a_claim_can_be_given_back_until_later(rig: Rig) -> None:
    [intent_id] = await rig.plan()
    [(_, token)] = await rig.claim()
    async with rig.database.connection() as connection:
        await deliveries.release_claims(connection, [(intent_id, token)], wake_at=FAR_OFF)
    assert await rig.claim() == []


async def test_only_a_running_lease_is_renewed(rig: Rig) -> None:
    await rig.plan(2)
    [(first, one)] = await rig.claim()
    [(_, other)] = await rig.claim(now=datetime.now(UTC) - timedelta(hours=1))
    before = (await rig.delivery(first.intent_id))["lease_until"]
    async with rig.database.connection() as connection:
        renewed = await deliveries.renew_leases(connection, [one, other], lease=2 * LEASE)
    assert renewed == 1
    assert (await rig.delivery(first.intent_id))["lease_until"] > before
