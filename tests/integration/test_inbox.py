"""Receipts through the inbox: nothing is lost, repeats and order change nothing, the untied is kept apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest

import ledger_rig
from findings import accepted, unanswered
from ledger_rig import Rig
from receipts_kit import MEANINGS, bring, fold, keep, receipt_row, waiting
from sendledger.journal.inbox import Inbox
from sendledger.ledger.findings import Finding
from sendledger.store.database import DatabaseError

YESTERDAY = datetime.now(UTC) - timedelta(days=1)


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig
        assert await rig.verify() == []


async def quarantined(rig: Rig) -> list[str]:
    found = await rig.rows("SELECT reason FROM sendledger.quarantine ORDER BY quarantine_id")
    return [row["reason"] for row in found]


async def literals(rig: Rig, intent_id: int) -> list[bytes]:
    found = await rig.rows(
        "SELECT literal FROM sendledger.evidence WHERE intent_id = %s ORDER BY seq", intent_id
    )
    return [row["literal"] for row in found]


# --- folding ---------------------------------------------------------------------------------


async def test_a_receipt_moves_the_delivery_and_leaves_the_inbox_with_its_literal(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, accepted(reference="SM1"))
    await keep(rig, receipt_row(intent_id, "arrived", occurred_at=YESTERDAY))
    [row] = await waiting(rig)
    folded = await fold(rig)
    assert (len(folded.taken), dict(folded.aside)) == (1, {})
    assert await rig.stands(intent_id) == ("delivered", None)
    assert await waiting(rig) == []
    seen = (await rig.observations(intent_id))[-1]
    assert (seen.source, seen.identity, seen.later) == ("receipt", "1/arrived", True)
    assert (seen.occurred_at, seen.received_at) == (YESTERDAY, row.received_at)
    assert await literals(rig, intent_id) == [b"250 2.0.0 queued", b"MessageStatus=arrived"]


async def test_a_receipt_before_our_own_answer_settles_the_attempt_and_names_the_reference(
    rig: Rig,
) -> None:
    [intent_id] = await rig.opened()
    await bring(rig, receipt_row(intent_id, "arrived"))
    assert await rig.stands(intent_id) == ("delivered", None)
    assert not await rig.record_fast(intent_id, 2, accepted(reference="SM1"))
    await rig.record(intent_id, accepted(reference="SM1"))
    assert await rig.stands(intent_id) == ("delivered", None)
    assert [row.provider_reference for row in await rig.observations(intent_id)] == ["SM1", "SM1"]


async def test_a_receipt_settles_a_handoff_whose_answer_was_lost(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, unanswered())
    await bring(rig, receipt_row(intent_id, "sent"))
    assert await rig.stands(intent_id) == ("submitted", "evidence")


async def test_arrival_after_a_refusal_cancels_the_retry(rig: Rig) -> None:
    """RELIABILITY R21: without it the person would get the message twice, by design."""
    [intent_id] = await rig.opened()
    await rig.record(intent_id, accepted())
    await bring(rig, receipt_row(intent_id, "away"))
    assert await rig.stands(intent_id) == ("deferred", "retry")
    await bring(rig, receipt_row(intent_id, "arrived"))
    assert await rig.stands(intent_id) == ("delivered", None)
    assert await rig.claim(now=datetime(2100, 1, 1, tzinfo=UTC)) == []


async def test_a_later_refusal_is_tried_again_not_before_the_floor_of_its_rule(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from receipts_kit import floored  # noqa: PLC0415 - beside what it changes

    monkeypatch.setitem(MEANINGS, "away", floored("away", retry_floor=timedelta(hours=2)))
    [intent_id] = await rig.opened()
    await rig.record(intent_id, accepted())
    before = datetime.now(UTC)
    await bring(rig, receipt_row(intent_id, "away"))
    due_at = (await rig.delivery(intent_id))["due_at"]
    assert due_at >= before + timedelta(hours=2) - timedelta(minutes=1)


async def test_later_refusals_end_when_the_budget_is_used_up(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    for number in (1, 2, 3):
        await rig.record(intent_id, accepted(number))
        await bring(rig, receipt_row(intent_id, "away", number=number))
        if number < 3:
            await rig.open_next(intent_id)
    assert await rig.stands(intent_id) == ("failed", None)
    assert "failed policy.exhausted" in await rig.tasks()


async def test_a_permanent_receipt_fails_the_delivery_and_opens_a_task(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, accepted())
    await bring(rig, receipt_row(intent_id, "never"))
    assert await rig.stands(intent_id) == ("failed", None)
    assert await rig.tasks() == ["failed test.never"]


async def test_a_fault_of_the_sender_holds_the_row_and_pauses_the_sender(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, accepted())
    await bring(rig, receipt_row(intent_id, "unregistered"))
    assert await rig.stands(intent_id) == ("deferred", "release")
    paused = await rig.rows("SELECT scope_key FROM sendledger.pause WHERE ended_at IS NULL")
    assert [row["scope_key"] for row in paused] == ["sender:mail/office"]


async def test_a_refusal_after_arrival_changes_nothing_and_tells_somebody(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await bring(rig, receipt_row(intent_id, "arrived"))
    await bring(rig, receipt_row(intent_id, "never"))
    row = await rig.delivery(intent_id)
    assert (row["status"], row["contradicted"]) == ("delivered", True)
    assert await rig.tasks() == ["contradicted test.never"]


async def test_a_word_that_no_rule_knows_is_kept_and_moves_nothing(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, accepted())
    await bring(rig, receipt_row(intent_id, "partially_delivered"))
    assert await rig.stands(intent_id) == ("submitted", "evidence")
    assert await rig.rules(intent_id) == ["default.2yz", "receipt.unmapped"]
    assert await rig.tasks() == []


# --- repeats and order -----------------------------------------------------------------------


async def test_a_repeat_that_waits_is_kept_once_and_one_that_was_folded_changes_nothing(
    rig: Rig,
) -> None:
    [intent_id] = await rig.opened()
    await keep(rig, *[receipt_row(intent_id, "arrived")] * 3)
    await keep(rig, receipt_row(intent_id, "arrived"))
    assert len(await waiting(rig)) == 1
    await fold(rig)
    before = await rig.folded(intent_id)
    folded = await bring(rig, receipt_row(intent_id, "arrived"))
    assert (len(folded.taken), dict(folded.aside), folded.added) == (1, {}, set())
    assert await rig.folded(intent_id) == before
    assert await waiting(rig) == []


async def test_the_same_event_of_another_attempt_is_another_event(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await bring(rig, receipt_row(intent_id, "away"))
    await rig.open_next(intent_id)
    await bring(rig, receipt_row(intent_id, "away", number=2))
    identities = [row.identity for row in await rig.observations(intent_id)]
    assert {"1/away", "2/away"} <= set(identities)
    assert (await rig.delivery(intent_id))["spent"] == 2


Step = Callable[[Rig, int], Awaitable[Any]]


def receipt(word: str) -> Step:
    return lambda rig, intent_id: keep(rig, receipt_row(intent_id, word))


def answer(finding: Finding) -> Step:
    return lambda rig, intent_id: rig.record(intent_id, finding)


@pytest.mark.parametrize(
    ("steps", "end"),
    [
        ((answer(accepted()), *map(receipt, ("queued", "sent", "arrived"))), ("delivered", None)),
        ((answer(unanswered()), *map(receipt, ("queued", "sent", "never"))), ("failed", None)),
        ((answer(accepted()), *map(receipt, ("sent", "sent", "away"))), ("deferred", "retry")),
        ((answer(unanswered()), *map(receipt, ("away", "sent", "arrived"))), ("delivered", None)),
        ((answer(accepted()), *map(receipt, ("sent", "queued"))), ("submitted", "evidence")),
    ],
)
async def test_receipts_and_our_own_answer_lead_to_one_end_in_every_order_with_every_repeat(
    rig: Rig, steps: tuple[Step, ...], end: tuple[str, str | None]
) -> None:
    orders = list(permutations(steps))
    ids = await rig.plan(len(orders))
    claims = await rig.claim(len(orders))
    await rig.open(*(rig.opening(row, token) for row, token in claims))
    for place in range(len(steps)):
        for intent_id, order in zip(ids, orders, strict=True):
            await order[place](rig, intent_id)
        await fold(rig)
    once = [await rig.folded(intent_id) for intent_id in ids]
    for intent_id in ids:
        for step in steps:
            await step(rig, intent_id)
    await fold(rig)
    assert [await rig.folded(intent_id) for intent_id in ids] == once
    assert {(row["status"], row["awaits"]) for row in once} == {end}
    assert {(row["spent"], row["contradicted"]) for row in once} == {(1, False)}


async def test_two_who_fold_at_once_fold_each_receipt_once(rig: Rig) -> None:
    ids = await rig.opened(20)
    await keep(rig, *(receipt_row(i, word) for i in ids for word in ("sent", "arrived")))
    rows = await waiting(rig)
    folded = await asyncio.gather(*(fold(rig, rows) for _ in range(4)))
    assert sum(len(part.taken) for part in folded) == len(rows)
    assert {await rig.stands(i) for i in ids} == {("delivered", None)}
    assert await waiting(rig) == []


# --- what cannot be tied ---------------------------------------------------------------------


@pytest.mark.parametrize(("number", "unknown"), [(2, False), (1, True)])
async def test_a_verified_token_of_what_the_ledger_does_not_hold_stops_everything(
    rig: Rig,
    number: int,
    unknown: bool,
) -> None:
    [intent_id] = await rig.opened()
    before = await rig.folded(intent_id)
    asked = 10**9 if unknown else intent_id
    folded = await bring(rig, receipt_row(asked, "arrived", number=number))
    reason = "no-intent" if unknown else "no-attempt"
    assert list(folded.aside.values()) == [reason]
    assert await quarantined(rig) == [reason]
    assert await rig.tasks() == ["commits-lost receipt.no-attempt"]
    paused = await rig.rows("SELECT scope_key, rule FROM sendledger.pause WHERE ended_at IS NULL")
    assert paused == [{"scope_key": "all", "rule": "receipt.no-attempt"}]
    assert await rig.folded(intent_id) == before
    assert await waiting(rig) == []


async def test_a_receipt_of_another_channel_is_kept_apart_and_stops_nothing(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    before = await rig.folded(intent_id)
    await bring(rig, receipt_row(intent_id, "arrived", channel="text"))
    assert await quarantined(rig) == ["other-channel"]
    assert await rig.folded(intent_id) == before
    assert await rig.tasks() == []


async def test_what_is_untied_holds_up_nobody_beside_it(rig: Rig) -> None:
    ids = await rig.opened(2)
    rows = [receipt_row(i, "arrived") for i in ids]
    await bring(rig, rows[0], receipt_row(10**9, "arrived"), rows[1])
    assert [await rig.stands(i) for i in ids] == [("delivered", None)] * 2


async def test_a_receipt_that_the_database_refuses_even_alone_is_kept_apart(rig: Rig) -> None:
    ids = await rig.opened(2)
    await keep(rig, *(receipt_row(i, "sent") for i in ids))
    # No way is known to bring this about from outside; the wall behind the wall is tried by hand.
    await rig.run("UPDATE sendledger.inbox SET identity = '' WHERE intent_id = %s", ids[0])
    await fold(rig)
    assert await quarantined(rig) == ["refused"]
    assert await rig.stands(ids[1]) == ("submitted", "evidence")
    assert await waiting(rig) == []


# --- keeping ---------------------------------------------------------------------------------


async def test_what_is_kept_together_is_committed_in_few_groups(rig: Rig) -> None:
    ids = await rig.opened(2)
    sizes: list[int] = []
    kept = Inbox(rig.database, counted=sizes.append)
    running = asyncio.create_task(kept.run())
    words = [f"word-{n}" for n in range(50)]
    await asyncio.gather(*(kept.keep([receipt_row(i, word)]) for i in ids for word in words))
    running.cancel()
    assert len(await waiting(rig)) == 100
    assert sum(sizes) == 100
    assert len(sizes) < 20


async def test_a_receipt_that_the_database_refuses_spoils_nobody_elses(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    kept = Inbox(rig.database)
    bad = receipt_row(intent_id, "bad")
    bad = type(bad)(**{name: getattr(bad, name) for name in bad.__slots__} | {"evidence": "{"})
    wanted = [kept.keep([bad]), kept.keep([receipt_row(intent_id, "sent")])]
    tasks = [asyncio.create_task(each) for each in wanted]
    await asyncio.sleep(0)
    running = asyncio.create_task(kept.run())
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    running.cancel()
    assert isinstance(answers[0], DatabaseError)
    assert answers[1] is None
    assert [row.identity for row in await waiting(rig)] == ["1/sent"]
