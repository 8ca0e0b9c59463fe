"""Recording in company: hostile neighbours, overlapping groups, several recorders at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

import ledger_rig
from findings import accepted, proposing, receipt, refused
from ledger_rig import Rig
from sendledger.journal.advance import Entry
from sendledger.ledger.findings import REFERENCE_LENGTH_MAX
from sendledger.ledger.words import Scope, Suppress
from sendledger.store import views
from sendledger.store.scopes import list_pauses


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig
        assert await rig.verify() == []


async def suppressed(rig: Rig) -> list[str]:
    found = await rig.rows("SELECT scope_key FROM sendledger.suppression ORDER BY scope_key")
    return [row["scope_key"] for row in found]


async def paused(rig: Rig) -> list[str]:
    async with rig.database.connection() as connection:
        return sorted(pause.scope_key for pause in await list_pauses(connection))


# --- evidence is never lost to how it is written ---------------------------------------------

HOSTILE = [
    "queue\0id", "half \ud800 pair", 'a"b', "a\\b", "{a,b}", "NULL", "", " a ", "a\nb", "naïve 漢字",
    "%s %(name)s", "x" * REFERENCE_LENGTH_MAX, "x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("path", ["fast", "slow"])
async def test_a_group_with_hostile_references_is_stored_whole(rig: Rig, path: str) -> None:
    ids = await rig.opened(len(HOSTILE))
    findings = [accepted(1, reference=text) for text in HOSTILE]
    if path == "fast":
        rows = [
            rig.recorder.accepted_row(intent_id, 2, finding)
            for intent_id, finding in zip(ids, findings, strict=True)
        ]
        assert await rig.recorder.record_accepted(rows) == set(ids)
    else:
        await rig.bring(*zip(ids, findings, strict=True))
    stored = [(await rig.observations(i))[0].provider_reference for i in ids]
    assert stored[2:-1] == HOSTILE[2:-1]
    assert stored[:2] == ["queue\N{REPLACEMENT CHARACTER}id", "half ? pair"]
    assert stored[-1] is None, "no index holds it"


async def test_codes_of_any_size_are_stored_or_left_to_the_literal(rig: Rig) -> None:
    ids = await rig.opened(3)
    codes = (63016, 2**40, -1)
    await rig.bring(
        *((i, replace(refused(1), reply_code=code)) for i, code in zip(ids, codes, strict=True)),
    )
    stored = [(await rig.observations(i))[0].reply_code for i in ids]
    assert stored == [63016, None, -1]


async def test_any_octets_of_a_reply_come_back_as_they_were(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    literal = bytes(range(256))
    await rig.record(intent_id, replace(accepted(1), literal=literal))
    async with rig.database.connection() as connection:
        assert await views.load_literals(connection, intent_id) == {2: literal}


async def test_a_wait_beyond_the_calendar_is_stored_as_ten_years(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    done = await rig.record(intent_id, refused(1), floor=timedelta.max)
    due = (await rig.delivery(intent_id))["due_at"]
    assert due == done.locked.now + timedelta(days=3650)


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in-company"])
async def test_a_member_that_the_ledger_refuses_stops_nobody(rig: Rig, alone: bool) -> None:
    """An acceptance with a scope breaks a constraint; no channel of ours can bring one."""
    bad, *others = await rig.opened(1 if alone else 4)
    impossible = replace(accepted(1), scope=Scope.SENDER)
    async with ledger_rig.recording(rig.recorder) as recording:
        await asyncio.gather(
            recording.entries.add(Entry(intent_id=bad, propose=proposing(impossible))),
            *(
                recording.entries.add(Entry(intent_id=i, propose=proposing(accepted(1))))
                for i in others
            ),
        )
    assert await rig.stands(bad) == ("submitting", "result")
    for intent_id in others:
        assert await rig.stands(intent_id) == ("submitted", "evidence")


async def test_an_acceptance_in_bad_company_takes_the_slow_path(rig: Rig) -> None:
    bad, good = await rig.opened(2)
    broken = rig.recorder.accepted_row(bad, 2, accepted(1))._replace(seal=b"short")
    async with ledger_rig.recording(rig.recorder) as recording:
        entry = Entry(intent_id=good, propose=proposing(accepted(1)))
        taken, _ = await asyncio.gather(
            recording.accepted.add(broken), recording.result(good, 1, accepted(1), lambda: entry)
        )
    assert not taken
    assert await rig.stands(bad) == ("submitting", "result")
    assert await rig.stands(good) == ("submitted", "evidence")


# --- together --------------------------------------------------------------------------------


async def test_recorders_with_overlapping_groups_do_not_deadlock(rig: Rig) -> None:
    ids = await rig.opened(30)
    faults = {
        scope: refused(1, final=True, scope=scope, rule=f"test.{scope}")
        for scope in (Scope.SENDER, Scope.CHANNEL)
    }

    async def bring(order: Sequence[int], turns: Sequence[Scope]) -> None:
        chosen = [faults[turns[place % 2]] for place in range(len(order))]
        receipts = [receipt(fault, f"event/{turns[0]}") for fault in chosen]
        await rig.bring(*zip(order, receipts, strict=True))

    one, other = (Scope.SENDER, Scope.CHANNEL), (Scope.CHANNEL, Scope.SENDER)
    async with asyncio.timeout(30):
        await asyncio.gather(
            bring(ids, one),
            bring(ids[::-1], other),
            bring(ids[10:] + ids[:10], one),
            bring(ids[:20], other),
        )
    deadlocks = await rig.rows(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    assert deadlocks == [{"deadlocks": 0}]
    for intent_id in ids:
        events = [row for row in await rig.observations(intent_id) if row.outcome]
        assert len(events) == 2
    assert await paused(rig) == ["channel:mail", "sender:mail/office"]


async def test_rows_are_locked_in_key_order_wherever_they_lie(rig: Rig) -> None:
    ids = await rig.opened(5)
    for intent_id in ids[1::-1]:
        # A rewritten row lies behind the others: where rows lie is not the order of their keys.
        await rig.run("UPDATE sendledger.delivery SET claims = 1 WHERE intent_id = %s", intent_id)
    async with rig.database.transaction() as connection:
        held = "SELECT FROM sendledger.delivery WHERE intent_id = %s FOR UPDATE"
        await connection.execute(held, [ids[2]])
        brought = asyncio.create_task(rig.bring(*((i, accepted(1)) for i in ids[::-1])))
        await rig.until_somebody_waits()
        free = await rig.rows(
            "SELECT intent_id FROM sendledger.delivery ORDER BY intent_id FOR UPDATE SKIP LOCKED"
        )
    await brought
    assert [row["intent_id"] for row in free] == ids[3:]


async def test_groups_in_other_orders_suppress_the_same_people_without_deadlock(rig: Rig) -> None:
    spring = await rig.opened(12)
    summer = await rig.opened(12, report="summer")
    final = refused(1, final=True, suppress=Suppress.DESTINATION)
    async with asyncio.timeout(30):
        await asyncio.gather(
            rig.bring(*((i, final) for i in spring)),
            rig.bring(*((i, final) for i in summer[::-1])),
        )
    assert await suppressed(rig) == ["channel:mail"] * 12


async def test_two_recorders_that_bring_the_same_evidence_store_it_once(rig: Rig) -> None:
    ids = await rig.opened(20)
    await asyncio.gather(*(rig.bring(*((i, refused(1)) for i in ids)) for _ in range(4)))
    for intent_id in ids:
        assert await rig.rules(intent_id) == ["test.refused", "policy.retry"]
