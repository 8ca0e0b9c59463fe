"""Verification names what was changed behind the ledger's back; a rebuild mends the projection alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

import ledger_rig
from findings import accepted, delivered, receipt, refused, unanswered
from ledger_rig import SEAL_KEY, Rig
from sendledger.journal import verify as verifying
from sendledger.journal.verify import Discrepancy
from sendledger.ledger import decisions
from sendledger.ledger.findings import Finding
from sendledger.ledger.words import Scope
from sendledger.store import deliveries, looking

HISTORIES: dict[str, list[Finding]] = {
    "submitting": [],
    "submitted": [accepted(1)],
    "unknown": [unanswered(1)],
    "deferred": [refused(1)],
    "held": [refused(1, final=True, scope=Scope.SENDER)],
    "settled": [accepted(1), decisions.close_window(1)],
    "delivered": [accepted(1), delivered(1)],
    "failed": [refused(1, final=True)],
    "contradicted": [refused(1, final=True), delivered(1)],
}


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig


def kinds(found: Iterable[Discrepancy]) -> list[str]:
    """Return the kinds of discrepancies, in the order found."""
    return [discrepancy.kind for discrepancy in found]


async def history(rig: Rig, name: str) -> int:
    [intent_id] = await rig.opened()
    for finding in HISTORIES[name]:
        await rig.record(intent_id, finding)
    assert await rig.verify() == []
    return intent_id


async def long_history(rig: Rig) -> int:
    """Make attempt 1 (row 1), its refusal (2), the decision (3), attempt 2 (4), its results (5, 6)."""
    [intent_id] = await rig.opened()
    await rig.record(intent_id, refused(1))
    await rig.open_next(intent_id)
    await rig.record(intent_id, unanswered(2))
    await rig.record(intent_id, receipt(accepted(2)))
    assert await rig.verify() == []
    return intent_id


async def due_for_a_look(rig: Rig) -> list[tuple[int, object]]:
    """Take what is due for a look: intent, and when its provider was asked last."""
    async with rig.database.connection() as connection:
        hold = timedelta(minutes=1)
        looks = await looking.claim_looks(connection, "mail", hold=hold, rows_max=9)
    return [(look.intent_id, look.looked_at) for look in looks]


async def test_an_empty_ledger_is_whole(rig: Rig) -> None:
    assert await rig.verify() == []


async def test_what_was_planned_is_whole_before_anything_happened(rig: Rig) -> None:
    await rig.plan(3)
    assert await rig.verify() == []


async def test_all_intents_are_looked_at_page_by_page(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await rig.plan(7)
    await rig.tamper(f"DELETE FROM sendledger.delivery WHERE intent_id = {ids[-1]}")
    monkeypatch.setattr(verifying, "PAGE_ROWS", 3)
    pages = [page async for page in verifying.verify(rig.database, SEAL_KEY)]
    assert [page.intents for page in pages] == [3, 3, 1]
    assert [len(page.discrepancies) for page in pages] == [0, 0, 1]


# --- the projection --------------------------------------------------------------------------


@pytest.mark.parametrize("name", HISTORIES)
async def test_a_deleted_delivery_is_missed_and_comes_back_as_it_was(rig: Rig, name: str) -> None:
    intent_id = await history(rig, name)
    before = await rig.folded(intent_id)
    await rig.tamper(f"DELETE FROM sendledger.delivery WHERE intent_id = {intent_id}")
    assert kinds(await rig.verify()) == ["delivery-missing"]
    assert kinds(await rig.verify(rebuild=True)) == ["delivery-missing"]
    assert await rig.verify() == []
    assert await rig.folded(intent_id) == before


@pytest.mark.parametrize("name", HISTORIES)
async def test_a_changed_delivery_is_named_column_by_column_and_mended(rig: Rig, name: str) -> None:
    intent_id = await history(rig, name)
    before = await rig.folded(intent_id)
    await rig.tamper(
        "UPDATE sendledger.delivery SET status = 'planned', awaits = 'dispatch',"
        " due_at = '2026-03-02T08:00Z', spent = 9, attempt_count = 9, contradicted = NOT contradicted,"
        " because = 99, decision_seq = 99, wake_at = '2026-03-02T08:00Z'"
    )
    found = await rig.verify()
    assert set(kinds(found)) == {"column-differs"}
    named = {discrepancy.what.split(" is ")[0] for discrepancy in found}
    assert named == {
        "status", "awaits", "due_at", "attempt_count", "spent", "contradicted", "because",
        "decision_seq",
    }  # fmt: skip
    await rig.verify(rebuild=True)
    assert await rig.verify() == []
    assert await rig.folded(intent_id) == before


async def test_a_changed_status_is_told_with_what_the_ledger_says(rig: Rig) -> None:
    intent_id = await history(rig, "failed")
    await rig.tamper("UPDATE sendledger.delivery SET status = 'delivered'")
    [found] = await rig.verify()
    assert (found.kind, found.what) == (
        "column-differs",
        "status is delivered, the ledger says failed",
    )
    [intent] = await rig.rows(
        "SELECT intent_key FROM sendledger.intent WHERE intent_id = %s", intent_id
    )
    assert found.intent_key == intent["intent_key"].hex()


async def test_looking_changes_nothing(rig: Rig) -> None:
    intent_id = await history(rig, "submitted")
    await rig.tamper("UPDATE sendledger.delivery SET status = 'ambiguous'")
    before = await rig.delivery(intent_id)
    assert await rig.verify() == await rig.verify()
    assert await rig.delivery(intent_id) == before


async def test_a_rebuild_leaves_alone_what_is_right(rig: Rig) -> None:
    intent_id = await history(rig, "submitting")
    before = await rig.delivery(intent_id)
    pages = [page async for page in verifying.verify(rig.database, SEAL_KEY, rebuild=True)]
    assert [page.rebuilt for page in pages] == [0]
    assert await rig.delivery(intent_id) == before


async def test_a_rebuilt_open_attempt_is_still_recovered(rig: Rig) -> None:
    intent_id = await history(rig, "submitting")
    [attempt] = await rig.attempts(intent_id)
    await rig.tamper("DELETE FROM sendledger.delivery")
    await rig.verify(rebuild=True)
    row = await rig.delivery(intent_id)
    assert row["lease_until"] == attempt.result_due_at
    await rig.expire_leases()
    async with rig.database.connection() as connection:
        lost = await deliveries.find_lost_attempts(
            connection, lease=attempt.opened_at - attempt.opened_at, rows_max=9
        )
    assert lost == [(intent_id, 1)]


async def test_what_was_accepted_is_asked_about_after_a_rebuild_once_it_is_overdue(
    rig: Rig,
) -> None:
    intent_id = await history(rig, "submitted")
    await rig.tamper("DELETE FROM sendledger.delivery")
    await rig.verify(rebuild=True, asked={"mail"})
    [attempt] = await rig.attempts(intent_id)
    assert (await rig.delivery(intent_id))["wake_at"] == attempt.evidence_due_at
    assert await due_for_a_look(rig) == []


@pytest.mark.parametrize("name", ["submitted", "unknown"])
async def test_what_is_unknown_or_overdue_at_a_rebuild_is_asked_about_at_once(
    rig: Rig, name: str
) -> None:
    intent_id = await history(rig, name)
    await rig.tamper(
        "UPDATE sendledger.attempt SET evidence_due_at = now() - interval '1 minute'",
        "DELETE FROM sendledger.delivery",
    )
    await rig.verify(rebuild=True, asked={"mail"})
    assert await due_for_a_look(rig) == [(intent_id, None)]


# --- the ledger ------------------------------------------------------------------------------


@pytest.mark.parametrize("seq", [2, 3, 5, 6], ids=["refusal", "decision", "middle", "last"])
async def test_a_deleted_observation_is_missed(rig: Rig, seq: int) -> None:
    intent_id = await long_history(rig)
    await rig.tamper(f"DELETE FROM sendledger.observation WHERE seq = {seq}")
    missing = [found for found in await rig.verify() if found.kind == "row-missing"]
    assert [found.what for found in missing] == [f"ledger row {seq} is missing"]
    before = await rig.delivery(intent_id)
    await rig.verify(rebuild=True)
    assert await rig.delivery(intent_id) == before
    assert "row-missing" in kinds(await rig.verify())


async def test_a_deleted_attempt_is_missed(rig: Rig) -> None:
    await long_history(rig)
    await rig.tamper("DELETE FROM sendledger.attempt WHERE number = 1")
    assert "row-missing" in kinds(await rig.verify())


async def test_a_delivery_is_never_set_back_before_a_handoff_that_was_lost(rig: Rig) -> None:
    """Without its attempt the row would look as if it never went, and would go again."""
    intent_id = await history(rig, "submitted")
    await rig.tamper("DELETE FROM sendledger.observation", "DELETE FROM sendledger.attempt")
    await rig.verify(rebuild=True)
    assert await rig.stands(intent_id) == ("submitted", "evidence")
    assert await rig.claim(10) == []


@pytest.mark.parametrize(
    ("table", "one", "other"),
    [("observation", 2, 3), ("observation", 5, 6), ("observation", 2, 6)],
)
async def test_observations_that_swapped_places_no_longer_fit(
    rig: Rig, table: str, one: int, other: int
) -> None:
    await long_history(rig)
    await rig.tamper(
        f"UPDATE sendledger.{table} SET seq = 99 WHERE seq = {one}",
        f"UPDATE sendledger.{table} SET seq = {one} WHERE seq = {other}",
        f"UPDATE sendledger.{table} SET seq = {other} WHERE seq = 99",
    )
    broken = [found.what for found in await rig.verify() if found.kind == "seal-broken"]
    assert len(broken) == 2
    assert all(f"row {seq} " in "".join(broken) for seq in (one, other))


async def test_an_attempt_and_an_observation_that_swapped_places_no_longer_fit(rig: Rig) -> None:
    await long_history(rig)
    await rig.tamper(
        "UPDATE sendledger.attempt SET seq = 5 WHERE number = 2",
        "UPDATE sendledger.observation SET seq = 4 WHERE seq = 5",
    )
    assert kinds(await rig.verify()).count("seal-broken") == 2


async def test_two_rows_at_one_place_are_named(rig: Rig) -> None:
    await long_history(rig)
    await rig.tamper("UPDATE sendledger.attempt SET seq = 5 WHERE number = 2")
    found = kinds(await rig.verify())
    assert {"row-doubled", "row-missing", "seal-broken"} <= set(found)


CHANGED = {
    "rule": "'test.other'", "identity": "'other'", "attempt": "1", "outcome": "'delivered'",
    "later": "NOT later", "spent": "NOT spent", "opt_out": "NOT opt_out", "due_at": "now()",
    "cause": "'other'", "stage": "'other'", "reply_code": "999", "enhanced_code": "'9.9.9'",
    "provider_reference": "'other'", "actor": "'other'", "source": "'operator'",
    "seal": "decode(repeat('00', 8), 'hex')",
}  # fmt: skip


@pytest.mark.parametrize("column", CHANGED)
async def test_a_changed_observation_no_longer_fits_its_seal(rig: Rig, column: str) -> None:
    await long_history(rig)
    change = f"{column} = {CHANGED[column]}"
    await rig.tamper(f"UPDATE sendledger.observation SET {change} WHERE seq = 6")
    broken = [found.what for found in await rig.verify() if found.kind == "seal-broken"]
    assert len(broken) == 1
    assert broken[0].startswith("observation at row 6 (")


@pytest.mark.parametrize(
    "change", ["ruling = 'wait', authorises = NULL", "authorises = 3"], ids=["ruling", "authorises"]
)
async def test_a_changed_decision_no_longer_fits_its_seal(rig: Rig, change: str) -> None:
    await long_history(rig)
    await rig.tamper(f"UPDATE sendledger.observation SET {change} WHERE seq = 3")
    assert kinds(await rig.verify()).count("seal-broken") == 1


async def test_a_changed_scope_no_longer_fits_its_seal(rig: Rig) -> None:
    await long_history(rig)
    await rig.tamper("UPDATE sendledger.observation SET scope = 'sender' WHERE seq = 2")
    assert "seal-broken" in kinds(await rig.verify())


async def test_an_attempt_with_another_decision_no_longer_fits_its_seal(rig: Rig) -> None:
    await long_history(rig)
    await rig.tamper("UPDATE sendledger.attempt SET decision_seq = 2 WHERE number = 2")
    [found] = [found for found in await rig.verify() if found.kind == "seal-broken"]
    assert found.what.startswith("attempt 2 at row 4 ")


async def test_a_ledger_under_another_key_does_not_fit(rig: Rig) -> None:
    await long_history(rig)
    pages = verifying.verify(rig.database, bytes(32))
    found = [discrepancy async for page in pages for discrepancy in page.discrepancies]
    assert kinds(found) == ["seal-broken"] * 6


async def test_a_rebuild_mends_the_whole_rows_of_a_page_and_names_the_others(rig: Rig) -> None:
    broken, whole = await rig.opened(2)
    for intent_id in (broken, whole):
        await rig.record(intent_id, accepted(1))
    await rig.tamper(
        f"DELETE FROM sendledger.observation WHERE intent_id = {broken}",
        "UPDATE sendledger.delivery SET spent = 7",
    )
    pages = [page async for page in verifying.verify(rig.database, SEAL_KEY, rebuild=True)]
    assert [page.rebuilt for page in pages] == [1]
    assert (await rig.delivery(whole))["spent"] == 1
    assert (await rig.delivery(broken))["spent"] == 7


async def test_no_person_is_named_in_what_was_found(rig: Rig) -> None:
    intent_id = await history(rig, "submitted")
    await rig.record(intent_id, receipt(replace(accepted(1), literal=b"person-0@example.test")))
    await rig.tamper("DELETE FROM sendledger.observation WHERE seq = 2")
    told = " ".join(f"{found.kind} {found.what}" for found in await rig.verify())
    assert told
    assert "person-0" not in told
    assert "example.test" not in told
