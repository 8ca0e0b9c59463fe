"""A worker's memory of where the queue begins: quicker claims, and no row that is never found again."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

import ledger_rig
from ledger_rig import LEASE, LONG_AGO, Rig
from sendledger.bootstrap import attachment_cache
from sendledger.ledger.words import Lane
from sendledger.plugin.channel import Content
from sendledger.plugin.host import PluginHost
from sendledger.settings.attachments import AttachmentSettings
from sendledger.store import deliveries
from sendledger.store.deliveries import Claimed
from sendledger.store.planning import ContentRow
from sendledger.work.claiming import REMEMBERED_S, Claiming
from sendledger.work.context import Rhythm, Workshop
from sendledger.work.leases import Leases


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig


def compile_nothing(channel: str, stored: ContentRow) -> Content:
    raise ValueError(f"{channel} has no content {stored}")


def claiming_of(rig: Rig) -> Claiming:
    shop = Workshop(
        database=rig.database,
        listen_dsn="",
        host=PluginHost(),
        recorder=rig.recorder,
        channels=(),
        rhythm=Rhythm(lease=LEASE, sweep=LEASE, poll=LEASE, claim_max=10, stop_grace=LEASE),
        compile_content=compile_nothing,
        attachments=attachment_cache(AttachmentSettings()),
        token_keys={},
        token_key_id=1,
        new_token=uuid4,
        chance=lambda: 0.0,
    )
    return Claiming(shop, "mail", Leases(rig.database, lease=LEASE))


async def claim(rig: Rig, claiming: Claiming, claim_max: int) -> tuple[UUID, list[Claimed]]:
    async with rig.database.connection() as connection:
        return await claiming.claim(connection, Lane.BULK, claim_max)


async def give_back(rig: Rig, token: UUID, rows: list[Claimed]) -> None:
    async with rig.database.connection() as connection:
        await deliveries.release_claims(connection, [(row.intent_id, token) for row in rows])


async def planned_early(rig: Rig) -> int:
    """Plan a row that is due before every other."""
    [early] = await rig.plan(report="early", eligible_at=LONG_AGO - timedelta(days=1))
    return early


async def test_while_claims_are_full_rows_below_the_bound_are_not_looked_at(rig: Rig) -> None:
    claiming = claiming_of(rig)
    claiming._forget_at = math.inf
    await rig.plan(5)
    await claim(rig, claiming, 2)
    early = await planned_early(rig)
    _, rows = await claim(rig, claiming, 2)
    assert early not in {row.intent_id for row in rows}


async def test_a_claim_that_is_not_full_looks_at_everything_the_next_time(rig: Rig) -> None:
    claiming = claiming_of(rig)
    claiming._forget_at = math.inf
    await rig.plan(3)
    await claim(rig, claiming, 2)
    early = await planned_early(rig)
    _, rest = await claim(rig, claiming, 2)
    _, found = await claim(rig, claiming, 2)
    assert (len(rest), [row.intent_id for row in found]) == (1, [early])


async def test_rows_given_back_with_their_old_instant_are_claimed_at_once(rig: Rig) -> None:
    claiming = claiming_of(rig)
    claiming._forget_at = math.inf
    ids = await rig.plan(4)
    token, rows = await claim(rig, claiming, 4)
    await give_back(rig, token, rows)
    _, again = await claim(rig, claiming, 4)
    assert sorted(row.intent_id for row in again) == sorted(ids)


async def test_a_row_that_came_back_with_an_earlier_instant_is_found_within_seconds(
    rig: Rig,
) -> None:
    """Also by a worker whose every claim is full, for whom it lies below the bound."""
    claiming = claiming_of(rig)
    await rig.plan(10)
    await claim(rig, claiming, 2)
    early = await planned_early(rig)
    deadline = time.monotonic() + 10 * REMEMBERED_S
    while True:
        token, rows = await claim(rig, claiming, 2)
        assert len(rows) == 2
        if early in {row.intent_id for row in rows}:
            break
        await give_back(rig, token, rows)
        assert time.monotonic() < deadline, "the row was lost"


async def test_each_lane_has_a_bound_of_its_own(rig: Rig) -> None:
    claiming = claiming_of(rig)
    claiming._forget_at = math.inf
    await rig.plan(3)
    await claim(rig, claiming, 2)
    [urgent] = await rig.plan(
        report="urgent", lane=Lane.TRANSACTIONAL, eligible_at=LONG_AGO - timedelta(days=1)
    )
    async with rig.database.connection() as connection:
        _, rows = await claiming.claim(connection, Lane.TRANSACTIONAL, 2)
    assert [row.intent_id for row in rows] == [urgent]
