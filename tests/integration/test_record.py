"""Recording: whoever brings evidence, by whatever path, in whatever company, it stands once and folded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import fields
from itertools import permutations
from typing import Any

import pytest

import ledger_rig
from findings import accepted, delivered, proposing, receipt, refused, unanswered
from ledger_rig import FAR_OFF, Rig
from sendledger.journal.advance import Entry
from sendledger.ledger import decisions
from sendledger.ledger.findings import Finding, lost_in_lease
from sendledger.ledger.words import Suppress
from sendledger.store import views
from sendledger.store.ledger_rows import ObservationRow

INSTANTS = {"due_at", "wake_at"}


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig
        assert await rig.verify() == []


def without_place(rows: Sequence[ObservationRow]) -> list[dict[str, Any]]:
    """Return observations without what differs between two ledgers that say the same."""
    dropped = {"intent_id", "received_at", "seal"}
    names = [field.name for field in fields(ObservationRow)]
    return [{name: getattr(row, name) for name in names if name not in dropped} for row in rows]


# --- two paths, one ledger -------------------------------------------------------------------


async def test_fast_and_slow_path_write_the_same_ledger_and_projection(rig: Rig) -> None:
    fast, slow = await rig.opened(2)
    assert await rig.record_fast(fast, 2, accepted(1))
    await rig.record(slow, accepted(1))

    assert without_place(await rig.observations(fast)) == without_place(
        await rig.observations(slow)
    )
    one, other = await rig.delivery(fast), await rig.delivery(slow)
    assert {name for name in one if one[name] != other[name]} == {"intent_id", *INSTANTS}
    for intent_id, row in ((fast, one), (slow, other)):
        [attempt] = await rig.attempts(intent_id)
        assert (row["due_at"], row["wake_at"]) == (
            attempt.evidence_due_at,
            attempt.window_ends_at,
        )


async def test_both_paths_keep_the_literal_reply(rig: Rig) -> None:
    fast, slow = await rig.opened(2)
    await rig.record_fast(fast, 2, accepted(1))
    await rig.record(slow, accepted(1))
    async with rig.database.connection() as connection:
        for intent_id in (fast, slow):
            literals = await views.load_literals(connection, intent_id)
            assert literals == {2: b"250 2.0.0 queued"}


async def test_the_fast_path_leaves_alone_what_something_else_came_to_first(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, delivered(1))
    before = await rig.folded(intent_id)
    assert not await rig.record_fast(intent_id, 2, accepted(1))
    assert await rig.folded(intent_id) == before


async def test_the_fast_path_leaves_alone_what_was_barred_in_flight(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, decisions.expired(1))
    assert await rig.stands(intent_id) == ("submitting", "result")
    assert not await rig.record_fast(intent_id, 2, accepted(1))
    await rig.record(intent_id, accepted(1))
    assert await rig.rules(intent_id) == ["policy.expired", "default.2yz"]


async def test_the_fast_path_takes_a_group_apart(rig: Rig) -> None:
    first, second, third = await rig.opened(3)
    await rig.record(second, lost_in_lease(1))
    rows = [rig.recorder.accepted_row(i, 2, accepted(1)) for i in (first, second, third)]
    assert await rig.recorder.record_accepted(rows) == {first, third}
    assert await rig.stands(second) == ("ambiguous", "evidence")


async def test_the_fast_path_of_a_second_attempt_writes_what_the_fold_would(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, refused(1))
    await rig.open_next(intent_id)
    assert await rig.record_fast(intent_id, 5, accepted(2))
    row = await rig.delivery(intent_id)
    assert (row["status"], row["attempt_count"], row["spent"]) == ("submitted", 2, 2)


async def test_a_result_ends_the_claim(rig: Rig) -> None:
    fast, slow = await rig.opened(2)
    await rig.record_fast(fast, 2, accepted(1))
    await rig.record(slow, refused(1))
    for intent_id in (fast, slow):
        row = await rig.delivery(intent_id)
        assert (row["claim_token"], row["lease_until"], row["claims"]) == (None, None, 0)


async def test_a_verdict_ends_the_claim_and_its_count(rig: Rig) -> None:
    [intent_id] = await rig.plan()
    await rig.claim()
    await rig.record(intent_id, decisions.wait("quiet-hours", FAR_OFF))
    row = await rig.delivery(intent_id)
    assert (row["claim_token"], row["lease_until"], row["claims"]) == (None, None, 0)
    assert (row["due_at"], row["wake_at"]) == (FAR_OFF, FAR_OFF)


# --- repetition and order --------------------------------------------------------------------


@pytest.mark.parametrize(
    "finding",
    [accepted(1), refused(1), refused(1, final=True, suppress=Suppress.DESTINATION), unanswered(1)],
    ids=["accepted", "refused", "failed", "unanswered"],
)
async def test_a_repeat_changes_nothing(rig: Rig, finding: Finding) -> None:
    [intent_id] = await rig.opened()
    first = await rig.record(intent_id, finding)
    before = await rig.delivery(intent_id), await rig.observations(intent_id), await rig.tasks()
    again = await rig.record(intent_id, finding)
    after = await rig.delivery(intent_id), await rig.observations(intent_id), await rig.tasks()
    assert first.added
    assert not again.added
    assert after == before


async def test_a_repeat_of_the_fast_path_changes_nothing(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    assert await rig.record_fast(intent_id, 2, accepted(1))
    before = await rig.delivery(intent_id)
    assert not await rig.record_fast(intent_id, 2, accepted(1))
    assert not (await rig.record(intent_id, accepted(1))).added
    assert await rig.delivery(intent_id) == before


async def test_what_comes_twice_in_one_group_is_stored_once(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.bring((intent_id, accepted(1)), (intent_id, accepted(1)))
    assert await rig.rules(intent_id) == ["default.2yz"]


async def test_several_entries_of_one_intent_build_on_each_other(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.bring((intent_id, accepted(1)), (intent_id, delivered(1)))
    row = await rig.delivery(intent_id)
    assert (row["status"], row["seq"], row["because"]) == ("delivered", 3, 3)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
async def test_evidence_in_any_order_gives_the_same_delivery(
    rig: Rig, order: Sequence[int]
) -> None:
    [intent_id] = await rig.opened()
    evidence = [accepted(1), lost_in_lease(1), delivered(1)]
    for place in order:
        await rig.record(intent_id, evidence[place])
    row = await rig.delivery(intent_id)
    assert (row["status"], row["contradicted"], row["seq"]) == ("delivered", False, 4)


async def test_a_late_result_after_recovery_is_folded(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, lost_in_lease(1))
    assert await rig.stands(intent_id) == ("ambiguous", "evidence")
    await rig.record(intent_id, accepted(1))
    assert await rig.stands(intent_id) == ("submitted", "evidence")


async def test_a_late_refusal_after_recovery_is_decided(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, lost_in_lease(1))
    await rig.record(intent_id, refused(1))
    assert await rig.stands(intent_id) == ("deferred", "retry")


@pytest.mark.parametrize(
    ("early", "status"),
    [
        (receipt(accepted(1)), "submitted"),
        (delivered(1), "delivered"),
        (receipt(refused(1, final=True)), "failed"),
    ],
    ids=["accepted", "delivered", "failed"],
)
async def test_a_receipt_before_the_result_counts_and_the_result_moves_nothing_back(
    rig: Rig, early: Finding, status: str
) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, early)
    assert (await rig.delivery(intent_id))["status"] == status
    await rig.record(intent_id, accepted(1, reference="queue-9"))
    assert (await rig.delivery(intent_id))["status"] == status
    assert (await rig.observations(intent_id))[-1].provider_reference == "queue-9"


async def test_evidence_against_a_terminal_marks_it_and_opens_one_task(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    await rig.record(intent_id, refused(1, final=True))
    await rig.record(intent_id, delivered(1, "event-1"))
    await rig.record(intent_id, delivered(1, "event-2"))
    row = await rig.delivery(intent_id)
    assert (row["status"], row["contradicted"]) == ("failed", True)
    assert await rig.tasks() == ["contradicted default.2yz", "failed test.refused"]


async def test_an_intent_that_does_not_exist_is_passed_over(rig: Rig) -> None:
    [intent_id] = await rig.opened()
    entry = Entry(intent_id=intent_id + 999, propose=proposing(accepted(1)))
    assert await rig.recorder.record([entry]) == []
