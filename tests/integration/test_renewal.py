"""The heartbeat: it keeps leases running, and waits for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import ledger_rig
from ledger_rig import LEASE, Rig
from sendledger.store import deliveries


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig


async def test_a_row_that_is_being_recorded_is_skipped_and_the_others_are_renewed(rig: Rig) -> None:
    await rig.plan(2)
    [(recorded, one), (other, two)] = await rig.claim(2)
    before = (await rig.delivery(other.intent_id))["lease_until"]
    lock = f"SELECT FROM sendledger.delivery WHERE intent_id = {recorded.intent_id} FOR UPDATE"
    async with rig.database.transaction() as recording, rig.database.connection() as connection:
        await recording.execute(lock.encode())
        async with asyncio.timeout(10):
            renewed = await deliveries.renew_leases(connection, [one, two], lease=2 * LEASE)
    assert renewed == 1
    assert (await rig.delivery(other.intent_id))["lease_until"] > before
