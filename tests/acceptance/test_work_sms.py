"""SMS through a whole installation: refused at planning, counted with the attempt, held to its deadline."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from uuid import UUID

import pytest

from acceptance.rig import Site, drained
from sendledger_sandbox.twilio import TwilioStandIn
from sms_kit import ACCOUNT
from sms_site import Script, point_at, said, sms_site

TAKEN = said({"status": 201, "json": {"sid": "SM" + "0" * 32, "status": "queued"}})


@pytest.fixture
def site(tmp_path: Path, database: str, installation_id: UUID) -> Site:
    return sms_site(tmp_path, database, installation_id)


async def test_the_segments_of_a_message_are_stored_with_its_attempt_and_shown(site: Site) -> None:
    script = Script(answers=[TAKEN, TAKEN])
    async with script.played(site):
        names = {"one": "Sam", "three": "я" * 120}
        await site.planned({"one": "+12025550143", "three": "+12025550144"}, names)
        await drained(site)
    found = site.select("SELECT units FROM sendledger.attempt ORDER BY intent_id")
    assert found == [(1,), (3,)]
    told = await site.tell("explain", site.row("three").key)
    assert "attempt 1 opened (segments: 3)" in told.out
    document = json.loads((await site.tell("explain", site.row("three").key, "--json")).out)
    assert [step["units"] for step in document["steps"] if step["kind"] == "attempt"] == [3]


async def test_a_text_that_is_too_dear_is_rejected_before_anything_is_planned(site: Site) -> None:
    site.settings["channels"]["sms"]["settings"]["segments_max"] = "1"
    people = {"one": "+12025550143", "three": "+12025550144", "short": "32665"}
    site.write()
    site.write_recipients(people, {"three": "я" * 120})
    batch, recipients = f"{site.folder}/batch.yaml", f"{site.folder}/recipients.csv"
    ran = await site.tell("plan", batch, "-r", recipients)
    assert ran.code == 1
    assert [row.recipient_id for row in site.rows()] == ["one"]
    with (site.folder / "recipients.rejects.csv").open(encoding="utf-8", newline="") as file:
        reasons = [row["reason"] for row in csv.DictReader(file)]
    assert reasons[0].startswith("the text goes as 3 segments of UCS-2, of at most 1")
    assert reasons[1] == "short_code_not_a_destination"


async def test_a_message_is_given_up_by_the_provider_when_its_deadline_comes(site: Site) -> None:
    site.batch["not_after"] = "2100-01-01T00:00:00+00:00"
    script = Script(answers=[TAKEN])
    async with script.played(site, validity_max="90s"):
        await site.planned({"one": "+12025550143"})
        await drained(site)
    assert script.posts[0].form["ValidityPeriod"] == "90"


async def test_every_outcome_of_the_stand_in_is_accounted_for(site: Site) -> None:
    """Refused numbers fail, one asks for STOP, a fault of the account holds, and nobody is asked twice."""
    numbers = {"bad": 50, "mobile": 51, "stop": 52, "good": 1}
    async with TwilioStandIn(journal=site.folder / "accepted.jsonl", fsync=False) as twilio:
        point_at(site, twilio.url, account_sid=twilio.account_sid)
        assert twilio.account_sid == ACCOUNT
        await site.planned({name: f"+120255501{n:02}" for name, n in numbers.items()})
        await drained(site)
        assert twilio.accepted == 1
    assert {row.recipient_id: row.status for row in site.rows()} == {
        "bad": "failed",
        "mobile": "failed",
        "stop": "suppressed",
        "good": "submitted",
    }
