"""Reconciling: the provider is asked what became of an attempt, and nothing is sent again for silence."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from acceptance.rig import Site, drained, until, working
from plugins_for_tests.courier import Courier
from reconcile_kit import SOON, Placed, asking_site, look, overdue, steps, submitted


@pytest.fixture
def placed(
    tmp_path: Path, database: str, installation_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Placed]:
    with asking_site(tmp_path, database, installation_id, monkeypatch) as placed:
        yield placed


def queued(site: Site) -> tuple[Any, ...]:
    """Return when the only row is looked at next and when its provider answered last, in minutes from now."""
    [found] = site.select(
        "SELECT round(extract(epoch FROM wake_at - now()) / 60)::integer, looked_at IS NOT NULL"
        " FROM sendledger.delivery"
    )
    return found


# --- when ------------------------------------------------------------------------------------


async def test_an_unknown_handoff_is_asked_about_long_before_its_wait_is_over(
    placed: Placed,
) -> None:
    """The policy's hours are minutes here: it is scaled by 60."""
    await submitted(placed, lost=True)
    assert queued(placed[0]) == (1, False)


async def test_an_accepted_one_is_asked_about_once_it_is_overdue(placed: Placed) -> None:
    await submitted(placed)
    assert placed[0].row("s0").status == "submitted"
    assert queued(placed[0]) == (2, False)


async def test_nothing_is_asked_before_its_time(placed: Placed) -> None:
    await submitted(placed, lost=True)
    assert await look(placed[0]) == 0
    assert placed[1].asked == []


async def test_a_worker_asks_by_itself(placed: Placed) -> None:
    site, office = placed
    await submitted(placed, lost=True)
    site.select(SOON)
    async with working(site):
        await until(lambda: site.row("s0").status == "submitted")
    assert len(office.submitted) == 1


# --- what is asked ---------------------------------------------------------------------------


async def test_a_provider_is_asked_with_the_very_envelope_that_was_handed_over(
    placed: Placed,
) -> None:
    site, office = placed
    await submitted(placed, lost=True)
    site.select(SOON)
    await look(site)
    [asked], [letter] = office.asked, office.submitted
    assert asked.envelope == letter
    assert asked.provider_reference is None
    assert asked.opened_at < asked.result_due_at


async def test_the_reference_of_an_answer_that_was_read_goes_along(placed: Placed) -> None:
    site, office = placed
    await submitted(placed)
    site.select(SOON)
    await look(site)
    assert [asked.provider_reference for asked in office.asked] == ["letter-1"]


# --- what follows ----------------------------------------------------------------------------


async def test_one_find_settles_an_unknown_handoff_and_nothing_is_sent_again(
    placed: Placed,
) -> None:
    site, office = placed
    await submitted(placed, lost=True)
    assert site.row("s0").status == "ambiguous"
    site.select(SOON)
    await look(site)
    assert site.row("s0").status == "submitted"
    assert steps(site)[-1] == ("look-up", "courier.sent")
    assert len(office.submitted) == 1


async def test_the_same_answer_adds_no_row_and_another_one_does(placed: Placed) -> None:
    site, office = placed
    await submitted(placed)
    for _ in range(3):
        site.select(SOON)
        await look(site)
    assert steps(site).count(("look-up", "courier.sent")) == 1
    office.word = "arrived"
    site.select(SOON)
    await look(site)
    assert site.row("s0").status == "delivered"
    site.select(SOON)
    assert await look(site) == 0


async def test_none_changes_nothing_and_is_asked_ever_more_rarely(placed: Placed) -> None:
    site, office = placed
    await submitted(placed, lost=True)
    office.submitted.clear()
    before = steps(site)
    site.select(SOON)
    await look(site)
    assert steps(site) == before
    assert queued(site) == (1, True)
    site.select(
        "SET session_replication_role = replica;"
        " UPDATE sendledger.attempt SET opened_at = opened_at - interval '100 seconds'"
    )
    site.select(SOON)
    await look(site)
    assert queued(site) == (2, True)


async def test_several_candidates_are_put_to_a_person_and_none_is_believed(placed: Placed) -> None:
    site, office = placed
    await submitted(placed, lost=True)
    office.copies = 2
    site.select(SOON)
    await look(site)
    row = site.row("s0")
    assert (row.status, row.awaits, row.rule) == ("ambiguous", "decision", "look-up.several")
    assert [task[:2] for task in site.tasks()] == [("unknown", "look-up.several")]


async def test_what_another_attempt_holds_is_no_find(placed: Placed) -> None:
    """Two children of one family may be sent the same words: a look-up by number and text finds either."""
    site, office = placed
    await submitted(placed)
    office.lost, office.shows = True, "letter-1"
    await site.planned({"s1": "pat0@home.test"})
    await drained(site)
    site.select(SOON)
    await look(site)
    assert {row.status for row in site.rows()} == {"submitted", "ambiguous"}
    row = site.row("s1")
    assert (row.status, row.awaits) == ("ambiguous", "evidence")
    assert site.tasks() == []


async def test_what_two_attempts_could_claim_is_put_to_a_person(placed: Placed) -> None:
    site, office = placed
    await submitted(placed, 2, lost=True)
    office.shows = "letter-9"
    site.select(SOON)
    await look(site)
    assert {(row.status, row.awaits, row.rule) for row in site.rows()} == {
        ("ambiguous", "decision", "look-up.several")
    }


async def test_a_look_up_that_fails_says_nothing_and_is_not_the_last_word(placed: Placed) -> None:
    site, office = placed
    await submitted(placed, lost=True)
    office.away = True
    overdue(site)
    site.select(SOON)
    await look(site)
    row = site.row("s0")
    assert (row.status, row.awaits) == ("ambiguous", "evidence")
    assert queued(site)[1] is False


async def test_an_unknown_handoff_is_decided_only_after_one_last_look(placed: Placed) -> None:
    site, office = placed
    await submitted(placed, lost=True)
    office.submitted.clear()
    overdue(site)
    site.select(SOON)
    await look(site)
    assert len(office.asked) == 1
    row = site.row("s0")
    assert (row.status, row.awaits, row.rule) == ("ambiguous", "decision", "policy.unknown-handoff")


async def test_a_wait_that_ends_while_the_provider_thinks_is_followed_by_one_last_look(
    placed: Placed,
) -> None:
    """What was asked before proves nothing of what came to the provider until then."""
    site, office = placed
    await submitted(placed, lost=True)
    office.submitted.clear()

    async def end() -> None:
        overdue(site, by="0")

    office.thinks = end
    for awaits in ("evidence", "decision"):
        site.select(SOON)
        await look(site)
        assert site.row("s0").awaits == awaits
        office.thinks = None
    assert len(office.asked) == 2


async def test_what_cannot_be_written_now_is_not_decided_and_stops_no_other(
    placed: Placed,
) -> None:
    site, office = placed
    await submitted(placed, lost=True)
    site.batch |= {"report": "autumn", "content": {"text": "Once more, {{name}}."}}
    await site.planned({"s1": "sam@home.test"})
    await drained(site)
    overdue(site)
    office.unable = "Once more"
    site.select(SOON)
    await look(site)
    assert site.row("s0").status == "submitted"
    row = site.row("s1")
    assert (row.status, row.awaits) == ("ambiguous", "evidence")


async def test_the_last_look_may_still_find_it(placed: Placed) -> None:
    site, _ = placed
    await submitted(placed, lost=True)
    overdue(site)
    site.select(SOON)
    await look(site)
    assert site.row("s0").status == "submitted"
    assert site.tasks() == []


async def test_a_policy_that_tries_again_does_so_after_the_last_look_and_says_why(
    placed: Placed,
) -> None:
    site, office = placed
    site.policy["unknown"]["then"] = "retry"
    await submitted(placed, lost=True)
    office.submitted.clear()
    office.lost = False
    overdue(site)
    site.select(SOON)
    await look(site)
    row = site.row("s0")
    assert (row.status, row.awaits, row.rule) == ("ambiguous", "retry", "policy.retry-unknown")
    await drained(site)
    assert [letter.attempt_number for letter in office.submitted] == [2]


async def test_absence_that_is_proof_frees_the_row_for_another_attempt(
    placed: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    proving = dataclasses.replace(Courier.capabilities, absence_is_proof=True)
    monkeypatch.setattr(Courier, "capabilities", proving)
    site, office = placed
    await submitted(placed, lost=True)
    office.submitted.clear()
    site.select(SOON)
    await look(site)
    assert site.row("s0").status == "ambiguous", "it may not have got there yet"
    overdue(site)
    site.select(SOON)
    await look(site)
    row = site.row("s0")
    assert (row.status, row.awaits, row.spent) == ("deferred", "retry", 0)
    assert ("look-up", "look-up.absent") in steps(site)


async def test_silence_after_acceptance_is_settled_when_its_window_ends_and_never_renamed(
    placed: Placed,
) -> None:
    site, office = placed
    await submitted(placed)
    overdue(site, "evidence_due_at = now() - interval '2 minutes', window_ends_at")
    site.select(SOON)
    await look(site)
    row = site.row("s0")
    assert (row.status, row.awaits, row.rule) == ("submitted", None, "evidence.window-closed")
    assert office.asked == []


async def test_what_waits_in_the_inbox_is_folded_before_anybody_is_asked(placed: Placed) -> None:
    site, office = placed
    await submitted(placed)
    site.select(SOON)
    site.select(
        "INSERT INTO sendledger.inbox (intent_id, attempt, channel, source, identity, evidence, body)"
        " SELECT intent_id, 1, 'letter', 'receipt', 'x', '{}', '' FROM sendledger.delivery"
    )
    assert await look(site) == 0
    assert office.asked == []


async def test_a_rebuilt_row_is_asked_about_again(placed: Placed) -> None:
    site, _ = placed
    await submitted(placed, lost=True)
    site.select("DELETE FROM sendledger.delivery")
    assert (await site.tell("rebuild")).code == 1
    await look(site)
    assert site.row("s0").status == "submitted"


# --- how much --------------------------------------------------------------------------------


async def test_no_more_is_asked_than_the_budget_allows_and_the_rest_comes_in_its_turn(
    placed: Placed,
) -> None:
    site, office = placed
    site.policy["look_up"]["per_minute"] = "60"
    await submitted(placed, 20, lost=True)
    site.select(SOON)
    assert await look(site) == 20
    assert len(office.asked) == 10
    waits = site.select(
        "SELECT extract(epoch FROM wake_at - now())::float FROM sendledger.delivery"
        " WHERE status = 'ambiguous' AND looked_at IS NULL ORDER BY wake_at"
    )
    assert len(waits) == 10
    assert 7 <= waits[-1][0] - waits[0][0] <= 13


async def test_a_row_that_wants_more_than_the_budget_gives_at_once_is_asked_about_all_the_same(
    placed: Placed,
) -> None:
    site, office = placed
    site.policy["unknown"]["then"] = "retry"
    site.policy["look_up"]["per_minute"] = "1"
    await submitted(placed, lost=True)
    office.submitted.clear()
    overdue(site)
    site.select(SOON)
    await look(site)
    await drained(site)
    assert site.row("s0").status == "ambiguous"
    site.select(SOON + "; DELETE FROM sendledger.turn")
    office.asked.clear()
    await look(site)
    assert [asked.envelope.attempt_number for asked in office.asked] == [1, 2]


async def test_two_workers_ask_about_each_row_once(placed: Placed) -> None:
    site, office = placed
    site.policy["look_up"]["per_minute"] = "6000"
    await submitted(placed, 40, lost=True)
    site.select(SOON)
    await asyncio.gather(*(look(site, times=2) for _ in range(3)))
    assert len(office.asked) == 40
    assert {row.status for row in site.rows()} == {"submitted"}


async def test_what_cannot_be_written_any_more_is_decided_without_being_asked(
    placed: Placed,
) -> None:
    """Its side rows are erased: nothing is left that could recognise it at the provider."""
    site, office = placed
    await submitted(placed, lost=True)
    site.select("DELETE FROM sendledger.recipient_secret")
    overdue(site)
    site.select(SOON)
    await look(site)
    assert office.asked == []
    [(status, awaits)] = site.select("SELECT status, awaits FROM sendledger.delivery")
    assert (status, awaits) == ("ambiguous", "decision")
