"""Adopting what a look-up found: by one attempt alone, and by none that others could be taken for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from acceptance.rig import Site, drained
from reconcile_kit import SOON, Placed, asking_site, look, steps, submitted
from sendledger.work import reconcile

FAMILY = {"s0": "pat@home.test", "s1": "pat@home.test"}
IN_DOUBT = ("ambiguous", "decision", "look-up.several")
REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'not this one' USING ERRCODE = 'data_exception'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON sendledger.observation
FOR EACH ROW WHEN (NEW.provider_reference = 'letter-13') EXECUTE FUNCTION refuse()
"""


@pytest.fixture
def placed(
    tmp_path: Path, database: str, installation_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Placed]:
    with asking_site(tmp_path, database, installation_id, monkeypatch) as placed:
        yield placed


async def in_doubt(placed: Placed, *, names: dict[str, str]) -> None:
    """Hand over to both of a family, each by name, without an answer."""
    site, office = placed
    office.lost = True
    await site.planned(FAMILY, names)
    await drained(site)


def stand(site: Site) -> list[tuple[str, str | None]]:
    return sorted((row.status, row.awaits) for row in site.rows())


def holders(site: Site, reference: str) -> list[str]:
    """Return which recipients' attempts hold *reference*."""
    found = site.select(
        "SELECT DISTINCT s.recipient_id FROM sendledger.observation AS o"
        " INNER JOIN sendledger.recipient_secret AS s ON s.intent_id = o.intent_id"
        f" WHERE o.provider_reference = '{reference}'"
    )
    return [recipient_id for (recipient_id,) in found]


def told_of_letter_7(site: Site, recipient_id: str) -> None:
    """Let a receipt have told the attempt of *recipient_id* that letter 7 is its own."""
    site.select(
        "INSERT INTO sendledger.observation (intent_id, seq, attempt, source, outcome, rule, identity,"
        " later, provider_reference, policy_revision, seal)"
        " SELECT s.intent_id, d.seq + 1, 1, 'receipt', 'accepted', 'courier.sent', 'x', true,"
        " 'letter-7', 'x', decode(repeat('00', 8), 'hex')"
        " FROM sendledger.recipient_secret AS s INNER JOIN sendledger.delivery AS d USING (intent_id)"
        f" WHERE s.recipient_id = '{recipient_id}'"
    )


# --- at the same moment ----------------------------------------------------------------------


async def test_what_two_workers_find_at_the_same_moment_is_taken_by_one_alone(
    placed: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen the letter before either has recorded it."""
    monkeypatch.setattr(reconcile, "PAGE_ROWS", 1)
    site, office = placed
    await submitted(placed, 2, lost=True)
    office.shows, office.thinks = "letter-9", asyncio.Barrier(2).wait
    site.select(SOON)
    await asyncio.gather(look(site), look(site))
    assert len(office.asked) == 2
    assert len(holders(site, "letter-9")) == 1
    assert stand(site) == [("ambiguous", "evidence"), ("submitted", "evidence")]


async def test_what_another_attempt_is_told_of_meanwhile_is_no_find(placed: Placed) -> None:
    site, office = placed
    await submitted(placed)
    office.lost = True
    await site.planned({"s1": "sam@home.test"})
    await drained(site)
    office.names = {"sam@home.test": "letter-7"}

    async def tell() -> None:
        told_of_letter_7(site, "s0")

    office.thinks = tell
    site.select(SOON + " AND status = 'ambiguous'")
    await look(site)
    assert holders(site, "letter-7") == ["s0"]
    row = site.row("s1")
    assert (row.status, row.awaits) == ("ambiguous", "evidence")


async def test_what_its_own_receipt_told_meanwhile_outweighs_what_looks_like_it(
    placed: Placed,
) -> None:
    site, office = placed
    await submitted(placed, lost=True)
    office.shows = "letter-9"

    async def tell() -> None:
        told_of_letter_7(site, "s0")

    office.thinks = tell
    site.select(SOON)
    await look(site)
    assert holders(site, "letter-9") == []


# --- rivals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rows_max", [20, 1], ids=["together", "one-by-one"])
async def test_of_two_in_doubt_with_the_same_words_for_one_address_neither_is_believed(
    placed: Placed, monkeypatch: pytest.MonkeyPatch, rows_max: int
) -> None:
    """Two children of one family, and one letter: it may be either's."""
    monkeypatch.setattr(reconcile, "PAGE_ROWS", rows_max)
    site, office = placed
    await in_doubt(placed, names=dict.fromkeys(FAMILY, "parents"))
    office.shows = "letter-9"
    site.select(SOON)
    await look(site, times=20 // rows_max)
    assert [(row.status, row.awaits, row.rule) for row in site.rows()] == [IN_DOUBT] * 2
    assert [task[:2] for task in site.tasks()] == [("unknown", "look-up.several")]
    assert holders(site, "letter-9") == []


async def test_of_two_batches_with_the_same_words_for_one_address_neither_is_believed(
    placed: Placed,
) -> None:
    site, office = placed
    await submitted(placed, lost=True)
    site.batch["report"] = "autumn"
    site.write()
    await submitted(placed, lost=True)
    site.select(SOON + " AND intent_id = (SELECT min(intent_id) FROM sendledger.delivery)")
    office.shows = "letter-9"
    await look(site)
    assert stand(site) == [("ambiguous", "decision"), ("ambiguous", "evidence")]


async def test_two_in_doubt_with_their_own_words_for_one_address_are_told_apart(
    placed: Placed,
) -> None:
    site, _ = placed
    await in_doubt(placed, names={"s0": "Ann", "s1": "Ben"})
    site.select(SOON)
    await look(site)
    assert stand(site) == [("submitted", "evidence")] * 2


async def test_a_person_is_told_once_of_who_was_believed_for_the_letter_of_another(
    placed: Placed,
) -> None:
    """The one whose letter it is heard of it only after the find."""
    site, office = placed
    await submitted(placed, 2, lost=True)
    office.names = {"pat0@home.test": "letter-7"}
    site.select(SOON)
    await look(site)
    told_of_letter_7(site, "s1")
    office.word = "arrived"
    for _ in range(2):
        site.select(SOON)
        await look(site)
    assert site.row("s0").status == "submitted"
    assert site.tasks() == [("unknown", "look-up.taken", site.tasks()[0][2])]
    assert steps(site).count(("policy", "look-up.taken")) == 1


# --- what the ledger says ----------------------------------------------------------------------


async def test_what_the_ledger_refuses_of_one_row_stops_no_other_of_its_page(
    placed: Placed,
) -> None:
    site, office = placed
    await submitted(placed, 3, lost=True)
    office.names = {"pat1@home.test": "letter-13"}
    site.select(REFUSE)
    site.select(SOON)
    await look(site)
    assert [site.row(f"s{n}").status for n in range(3)] == ["submitted", "ambiguous", "submitted"]
    assert steps(site).count(("look-up", "courier.sent")) == 2
