"""The twilio_submit cases through an installation: what the provider was asked, and what the ledger holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

from acceptance.rig import Site, drained, until, working
from http_peer import Asked
from sms_kit import INPUTS, PLEASANT, SID
from sms_site import Script, account, point_at, said, sms_site

HERE = Path(__file__).parent
ALTERNATIVES = yaml.safe_load((HERE / "alternatives.yaml").read_text())
CASES = {
    case["id"]: case
    for case in yaml.safe_load((INPUTS / "cases.yaml").read_text())["cases"]
    if case["kind"] == "twilio_submit"
}

# Asserted by tests of their own, below: they need more than one attempt, intent or look.
LATER = {
    "after_reconcile",
    "final_projection",
    "posts_sent",
    "next_intent_same_pair",
    "other_sender",
    "operator_tasks_for_100_same_recipients",
    "log_contains_destination",
}


@pytest.fixture
def site(tmp_path: Path, database: str, installation_id: UUID) -> Site:
    return sms_site(tmp_path, database, installation_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """An installation whose only intent has met the provider of a case."""

    site: Site
    script: Script

    def observed(self, columns: str) -> tuple[Any, ...]:
        """Return columns of the only evidence."""
        [row] = self.site.select(
            f"SELECT {columns} FROM sendledger.observation WHERE outcome IS NOT NULL"
        )
        return row

    def decided(self, columns: str) -> list[tuple[Any, ...]]:
        """Return columns of every decision."""
        return self.site.select(
            f"SELECT {columns} FROM sendledger.observation WHERE ruling IS NOT NULL ORDER BY seq"
        )


def script_of(name: str) -> Script:
    """Return what the provider of a case answers to each submission, in turn."""
    server = yaml.safe_load((INPUTS / CASES[name]["input"]).read_text())["server"]
    posts = [step for step in server if step["on"].startswith("POST")]
    return Script(answers=[None if "stall_s" in step else said(_taken(step)) for step in posts])


def _taken(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the step as YAML 1.1 readers leave it."""
    return {**step, "headers": {k: str(v) for k, v in step.get("headers", {}).items()}}


HURRIED = {"timeouts": {"connect": "10s", "answer": "500ms"}}


@pytest.mark.parametrize("name", sorted(CASES))
async def test_the_ledger_holds_what_the_case_expects(name: str, site: Site) -> None:
    script, other_ways = script_of(name), ALTERNATIVES.get(name, {})
    async with script.played(site, **HURRIED):
        await site.planned({"parent": PLEASANT})
        await drained(site)
        played = Played(site=site, script=script)
        for key, expected in CASES[name]["expected"].items():
            if key not in other_ways and key not in LATER:
                CHECKS[key](played, expected)
        # Whatever is due now is done: nothing more may come of it by itself.
        await drained(site)
        assert (site.count("attempt"), len(script.posts)) == (1, 1)


def is_class(played: Played, expected: str) -> None:
    outcome, scope, opt_out = played.observed("outcome, scope, opt_out")
    match expected:
        case "config_error":
            assert (outcome, scope in {"sender", "channel"}) == ("permanent", True)
        case "suppressed":
            assert (outcome, opt_out) == ("permanent", True)
        case _:
            assert outcome == expected
            assert played.site.paused() == []


def is_scope(played: Played, expected: str) -> None:
    assert played.observed("scope") == (expected,)


def stands(played: Played, expected: str) -> None:
    assert played.site.row("parent").status == expected


def follows(played: Played, expected: Mapping[str, Any]) -> None:
    row, decisions = played.site.row("parent"), played.decided("ruling, authorises")
    match expected["mode"]:
        case "auto":
            assert (row.awaits, decisions) == ("retry", [("retry", 2)])
            [(wait,)] = played.decided("due_at - received_at")
            # The instant is computed a moment before the row is written.
            assert wait > timedelta(seconds=expected["min_delay_s"] - 1)
            assert expected["jitter"] is True
        case "none":
            assert (row.awaits, decisions) == (None, [])
        case "reconcile_first":
            assert (row.awaits, decisions) == ("evidence", [])
        case "hold":
            assert (row.awaits, decisions) == ("release", [("hold", None)])
        case mode:
            raise AssertionError(f"no case has asked for {mode} before")


def suppresses(played: Played, expected: str) -> None:
    found = played.site.select(
        "SELECT s.scope_key, s.destination_fingerprint = i.destination_fingerprint"
        " FROM sendledger.suppression AS s JOIN sendledger.intent AS i USING (intent_id)"
    )
    pair = [(f"sender:sms/{account()['account_sid']}", True)]
    assert found == {"none": [], "destination_sender_pair": pair}[expected]


def is_not_spent(played: Played, expected: bool) -> None:
    assert (played.site.row("parent").spent == 1) == expected


def asks_a_person(played: Played, expected: bool) -> None:
    assert bool(played.site.tasks()) == expected


CHECKS: Mapping[str, Callable[[Played, Any], None]] = {
    "class": is_class,
    "scope": is_scope,
    "projection": stands,
    "retry": follows,
    "suppress": suppresses,
    "attempt_counted_against_recipient_ceiling": is_not_spent,
    "operator_task": asks_a_person,
}


async def when_its_time_has_come(site: Site) -> None:
    """Let the queue believe that the wait is over; the decision keeps its instant."""
    site.select("UPDATE sendledger.delivery SET wake_at = now()")
    site.select("UPDATE sendledger.back_off SET probe_at = now()")
    await drained(site)


async def test_twsub_01_a_message_in_doubt_is_found_at_the_provider_and_never_sent_again(
    site: Site,
) -> None:
    expected, script = CASES["twsub-01"]["expected"], script_of("twsub-01")
    site.policy["look_up"] = {"first_after": "100ms"}
    [step] = [
        step
        for step in yaml.safe_load((INPUTS / CASES["twsub-01"]["input"]).read_text())["server"]
        if step["on"].startswith("GET")
    ]
    [message] = step["json"]["messages"]
    asked_for: list[str] = []

    def look_up(asked: Asked) -> bytes:
        asked_for.append(asked.target)
        sent = script.posts[0].form
        now = format_datetime(datetime.now(UTC))
        shown = message | {"body": sent["Body"], "from": sent["From"], "date_created": now}
        listed = {"messages": [shown], "next_page_uri": None}
        return said({"status": 200, "json": shown if SID in asked.target else listed})

    script.look_up = look_up
    async with script.played(site, **HURRIED), working(site):
        await site.planned({"parent": PLEASANT})
        await until(lambda: site.row("parent").status == expected["projection"])
        await until(lambda: site.row("parent").status == expected["after_reconcile"]["projection"])
    assert step["on"].partition("?")[2] in asked_for[0]
    [(reference,)] = site.select(
        "SELECT provider_reference FROM sendledger.observation WHERE source = 'look-up'"
    )
    assert reference == expected["after_reconcile"]["provider_sid"]
    assert len(script.posts) == site.count("attempt") == expected["posts_sent"]


async def test_twsub_02_a_request_that_was_too_much_is_made_again_in_its_time(site: Site) -> None:
    expected, script = CASES["twsub-02"]["expected"], script_of("twsub-02")
    async with script.played(site):
        await site.planned({"parent": PLEASANT})
        await drained(site)
        await when_its_time_has_come(site)
    assert len(script.posts) == expected["posts_sent"]
    assert site.row("parent").status == expected["final_projection"]
    assert site.row("parent").spent == 1


async def test_twsub_03_an_opt_out_holds_for_this_sender_alone_and_asks_nobody_twice(
    site: Site,
) -> None:
    expected, script = CASES["twsub-03"]["expected"], script_of("twsub-03")
    second = {"plugin": "twilio", "settings": account(senders=["+15005550009"])}
    async with script.played(site) as peer:
        await site.planned({"parent": PLEASANT})
        await drained(site)
        site.batch["content_revision"] = "r2"
        await site.planned({"parent": PLEASANT})
        await drained(site)
        following = site.rows()[-1]
        wanted = expected["next_intent_same_pair"]
        assert following.status == wanted["projection"]
        assert len(script.posts) - 1 == wanted["posts_sent"]

        site.settings["channels"]["other"] = second
        point_at(site, peer.url, "other")
        site.batch["channel"] = "other"
        script.answers.append(said({"status": 201, "json": {"sid": SID, "status": "queued"}}))
        await site.planned({"parent": PLEASANT})
        await drained(site)
        assert expected["other_sender"].startswith("not blocked")
        assert site.rows()[-1].status == "submitted"


async def test_twsub_04_the_number_stands_in_no_log_though_the_provider_repeats_it(
    site: Site,
) -> None:
    expected, script = CASES["twsub-04"]["expected"], script_of("twsub-04")
    async with script.played(site):
        await site.planned({"parent": PLEASANT})
        ran = await site.run("work", "--drain")
    assert ran.code == 0
    said_of_it = [*_said(await site.tell("explain", site.row("parent").key)), ran.all]
    assert site.row("parent").status == "failed"
    assert any("2025550143" in text for text in said_of_it) == expected["log_contains_destination"]


def _said(ran: Any) -> Sequence[str]:
    assert ran.code == 0
    return [ran.all]


async def test_twsub_05_a_hundred_recipients_of_a_closed_country_are_one_task(site: Site) -> None:
    expected, script = CASES["twsub-05"]["expected"], script_of("twsub-05")
    people = {f"p{n}": f"+1787555{n:04}" for n in range(100, 200)}
    async with script.played(site):
        await site.planned(people)
        await drained(site)
    tasks = [task for task in site.tasks() if task[0] == "paused"]
    assert len(tasks) == len(site.tasks()) == expected["operator_tasks_for_100_same_recipients"]
    assert len(script.posts) == 1
    assert {row.status for row in site.rows()} <= {"planned", "deferred"}
