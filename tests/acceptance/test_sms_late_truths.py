"""Truths that come late cancel, contradict, bound or settle what was believed: by one process that serves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from acceptance.rig import LedgerRow, Site, found_site, until
from acceptance.sms_checker import violations
from acceptance.sms_rig import SmsScene, sms_scene_of
from sendledger_sandbox.twilio import read_journal
from stand_in_kit import number

pytestmark = pytest.mark.xdist_group("sms late truths")

PEOPLE: Mapping[str, str] = MappingProxyType(
    {
        "arrived after all": number(88),
        "failed after all": number(2),
        "unreachable": number(60),
        "nobody says why": number(64),
        "told before the answer": number(84),
        "told without an answer": number(91),
        "found twice": number(93),
    }
)
OUTCOMES: Mapping[str, str] = MappingProxyType(
    {"failed after all": "end-delivered+end-undelivered-30006"}
)
"""Where the last digits of the number do not say it."""

DELAYS = ("30s", "30s")
"""At most two further attempts; the floor of these failures is 15 minutes, a second here."""

SCALE = "900"
STEPS = """
SELECT o.source, o.rule, o.provider_reference, o.authorises, o.due_at < clock_timestamp()
FROM sendledger.observation AS o
INNER JOIN sendledger.recipient_secret AS s USING (intent_id)
WHERE s.recipient_id = %s
ORDER BY o.seq
"""
CONTRADICTED = """
SELECT d.contradicted FROM sendledger.delivery AS d
INNER JOIN sendledger.recipient_secret AS s USING (intent_id)
WHERE s.recipient_id = %s
"""
AWAITED = "SELECT 1 FROM sendledger.delivery WHERE awaits <> 'decision'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An observation."""

    source: str
    rule: str
    reference: str | None
    authorises: int | None
    due: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What stands in ledger and journal when everything is over."""

    site: Site
    journal: Path

    def row(self, who: str) -> LedgerRow:
        """Return the delivery of one of the people."""
        return self.site.row(who)

    def steps(self, who: str) -> list[Step]:
        """Return everything that was observed about one of the people."""
        names = Step.__dataclass_fields__
        found = self.site.select(STEPS, who)
        return [Step(**dict(zip(names, row, strict=True))) for row in found]

    def sids(self, who: str) -> list[str]:
        """Return the messages that the provider took for one of the people."""
        accepted = read_journal(self.journal).accepted
        return [entry.sid for entry in accepted if entry.to == PEOPLE[who]]

    def contradicted(self, who: str) -> bool:
        """Whether evidence for another end is stored."""
        return bool(self.site.select(CONTRADICTED, who)[0][0])


@pytest.fixture(scope="module")
def played(
    shared_database: str, installation_id: UUID, tmp_path_factory: pytest.TempPathFactory
) -> Played:
    site = found_site(tmp_path_factory.mktemp("late"), shared_database, installation_id)
    asyncio.run(play(site))
    return Played(site=site, journal=site.folder / "accepted.jsonl")


async def play(site: Site) -> None:
    """Let the process run until nobody waits for anything but a person."""
    policy: dict[str, Any] = {"scale": SCALE, "retry": {"delays": list(DELAYS), "jitter": "0"}}
    async with sms_scene_of(site, PEOPLE, script="stall-0.01", **policy) as scene:
        for who, outcomes in OUTCOMES.items():
            scene.twilio.play_for(PEOPLE[who], outcomes)
        process = await scene.start()
        await until(lambda: over(scene), within_s=60)
        await scene.twilio.at_rest()
        await until(lambda: site.count("inbox") == 0)
        await scene.stop(process)


def over(scene: SmsScene) -> bool:
    """Whether everybody is where they end, and the retry that was cancelled would have come."""
    found = scene.site.select(STEPS, "arrived after all")
    due = [row[-1] for row in found if row[3] is not None]
    return not scene.site.select(AWAITED) and any(due)


def test_an_arrival_after_a_failure_cancels_the_attempt_that_was_to_come(played: Played) -> None:
    who = "arrived after all"
    authorised = [step for step in played.steps(who) if step.authorises is not None]
    assert [step.authorises for step in authorised] == [2]
    assert all(step.due for step in authorised), "it would have come by now"
    row = played.row(who)
    assert (row.status, row.attempts, len(played.sids(who))) == ("delivered", 1, 1)
    assert not played.contradicted(who)


def test_a_failure_after_an_arrival_is_kept_as_a_contradiction_and_put_to_a_person(
    played: Played,
) -> None:
    who = "failed after all"
    row = played.row(who)
    assert (row.status, row.rule, row.attempts) == ("delivered", "twilio.delivered", 1)
    assert played.contradicted(who)
    assert ("contradicted", "twilio.landline-or-carrier") in [
        task[:2] for task in played.site.tasks()
    ]


def test_who_is_unreachable_is_tried_again_as_often_as_is_configured(played: Played) -> None:
    who = "unreachable"
    row = played.row(who)
    assert (row.status, row.rule) == ("failed", "policy.exhausted")
    assert row.attempts == len(played.sids(who)) == 1 + len(DELAYS)


def test_a_failure_that_nobody_explains_is_tried_once_more_and_not_as_often_as_others(
    played: Played,
) -> None:
    who = "nobody says why"
    row = played.row(who)
    assert (row.status, row.rule) == ("failed", "policy.exhausted")
    assert row.attempts == len(played.sids(who)) == 2


def test_a_receipt_before_the_answer_settles_and_brings_the_reference(played: Played) -> None:
    who = "told before the answer"
    [sid] = played.sids(who)
    steps = played.steps(who)
    assert played.row(who).status == "delivered"
    assert (steps[0].source, steps[0].reference) == ("receipt", sid)
    assert [step.rule for step in steps].index("twilio.accepted") > 0
    assert {step.reference for step in steps} == {sid}


def test_a_receipt_settles_an_attempt_whose_answer_never_came(played: Played) -> None:
    who = "told without an answer"
    [sid] = played.sids(who)
    steps = played.steps(who)
    assert played.row(who).status == "delivered"
    assert {step.source for step in steps} == {"channel", "receipt"}
    assert {step.reference for step in steps if step.source == "receipt"} == {sid}
    assert {step.reference for step in steps if step.source == "channel"} == {None}


def test_of_two_messages_that_may_be_it_none_is_believed_and_a_person_is_asked(
    played: Played,
) -> None:
    who = "found twice"
    assert len(played.sids(who)) == 2
    row = played.row(who)
    assert (row.status, row.awaits, row.rule) == ("ambiguous", "decision", "look-up.several")
    assert ("unknown", "look-up.several") in [task[:2] for task in played.site.tasks()]
    assert {step.reference for step in played.steps(who)} == {None}


def test_the_books_are_right_but_for_the_message_that_the_provider_doubled(played: Played) -> None:
    [said] = violations(played.site.dsn, played.journal, PEOPLE.keys())
    assert said.startswith(played.row("found twice").key[:12])
    assert said.endswith("attempt 1 was submitted 2 times")
