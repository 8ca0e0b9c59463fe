"""What is stuck is shown by channel, awaited event and age, and tasks are listed and closed, by the commands."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from acceptance.rig import Site, found_site, people
from sendledger.cli.stuck import ACTIONS, AGES, FAULTS
from sendledger.ledger.words import Awaits
from sendledger.store.statements import statement

STANDS = {
    "dispatch": "planned",
    "result": "submitting",
    "evidence": "submitted",
    "decision": "ambiguous",
    "retry": "deferred",
    "release": "planned",
}


@pytest.fixture
def site(tmp_path: Path, database: str, installation_id: UUID) -> Site:
    return found_site(tmp_path, database, installation_id)


def late(site: Site, recipient: str, awaits: str, age: str, *, channel: str = "email") -> str:
    """Let a planned delivery await something since *age* ago; returns its intent key."""
    row = site.row(recipient)
    site.select(
        "UPDATE sendledger.delivery SET status = %s, awaits = %s, channel = %s,"
        " due_at = now() - %s::interval WHERE intent_id = %s",
        STANDS[awaits], awaits, channel, age, row.intent_id,
    )  # fmt: skip
    return row.key


def stuck(site: Site) -> dict[str, Any]:
    ran = site.ask("stuck", "--json")
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


@pytest.fixture
def one_of_each(site: Site) -> dict[str, str]:
    """Return the intent key of one overdue delivery for each thing that can be awaited."""
    site.policy["scale"] = "1"
    site.plan(people(len(Awaits)))
    return {
        awaits: late(site, f"s{number}", awaits, "10 min")
        for number, awaits in enumerate(STANDS, 1)
    }


def test_each_kind_of_stuck_has_a_row_of_its_own_with_its_intent_and_what_to_do(
    site: Site, one_of_each: dict[str, str]
) -> None:
    found = stuck(site)
    assert found["grace_s"] == 300
    assert {row["awaits"]: row["intent_key"] for row in found["stuck"]} == one_of_each
    assert {row["what"] for row in found["stuck"]} == set(FAULTS.values())
    assert {row["deliveries"] for row in found["stuck"]} == {1}
    assert all(row["action"] for row in found["stuck"])
    assert {row["awaits"] for row in found["stuck"] if row["person"]} == {"decision", "release"}


def test_the_text_puts_what_waits_for_a_person_apart(
    site: Site, one_of_each: dict[str, str]
) -> None:
    text = site.ask("stuck").out
    machine, _, person = text.partition("waiting for a person")
    for awaits, key in one_of_each.items():
        assert key[:12] in (person if awaits in {"decision", "release"} else machine)


def test_every_awaited_event_has_a_name_and_an_action() -> None:
    assert set(FAULTS) == set(ACTIONS) == {str(word) for word in Awaits} == set(STANDS)


def test_rows_are_grouped_by_how_long_beyond_the_grace_they_are_late(site: Site) -> None:
    site.policy["scale"] = "1"
    site.plan(people(6))
    for number, age in enumerate(("4 min", "6 min", "9 min", "64 min", "23 h", "3 d"), 1):
        late(site, f"s{number}", "retry", age)
    found = stuck(site)["stuck"]
    assert {row["late"]: row["deliveries"] for row in found} == dict(
        zip(reversed(AGES), (2, 1, 1, 1), strict=True)
    )
    oldest = next(row for row in found if row["late"] == "<5m")
    assert oldest["intent_key"] == site.row("s3").key


def test_a_row_within_the_grace_is_not_stuck(site: Site) -> None:
    site.policy |= {"scale": "1", "grace": "1h"}
    site.plan(people(1))
    late(site, "s1", "dispatch", "59 min")
    assert stuck(site)["stuck"] == []
    assert site.ask("stuck").out == "nothing is overdue by more than 1h\n"


def test_a_channel_that_is_not_configured_any_more_is_shown_too(site: Site) -> None:
    site.plan(people(2))
    late(site, "s1", "retry", "2 h", channel="carrier-pigeon")
    late(site, "s2", "retry", "2 h")
    assert {row["channel"] for row in stuck(site)["stuck"]} == {"carrier-pigeon", "email"}


def test_a_closed_channel_is_named_before_anything_else_is_advised(site: Site) -> None:
    site.plan(people(1))
    late(site, "s1", "dispatch", "2 h")
    assert "start `sendledger work`" in stuck(site)["stuck"][0]["action"]
    site.select(
        "INSERT INTO sendledger.back_off (scope_key, probe_at, rule)"
        " VALUES ('channel:email', now() + interval '1 h', 'smtp.refused')"
    )
    assert "backs off" in stuck(site)["stuck"][0]["action"]
    assert site.ask("pause", "channel:email").code == 0
    assert "sendledger resume channel:email" in stuck(site)["stuck"][0]["action"]


PARAMETERS: dict[str, Any] = {
    "awaits": list(STANDS),
    "grace": "5 min",
    "edges": ["1 d", "1 h", "5 min"],
    "now": None,
}


@pytest.mark.parametrize("name", ["find_overdue", "count_overdue"])
@pytest.mark.parametrize("analysed", [False, True])
def test_what_is_overdue_is_found_through_its_index_and_never_by_a_scan(
    database: str, name: str, *, analysed: bool
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")  # rows without their intents
        connection.execute(
            "INSERT INTO sendledger.delivery (intent_id, batch_id, due_at, lane, channel, status, awaits)"
            " SELECT n, 1, now() + n * interval '1 s' - interval '1 h', 1, 'email', 'deferred', 'retry'"
            " FROM generate_series(1, 20000) AS n"
        )
        if analysed:
            connection.execute("VACUUM ANALYZE sendledger.delivery")
        plan = "\n".join(
            row[0] for row in connection.execute(b"EXPLAIN " + statement(name), PARAMETERS)
        )
    assert "delivery_due" in plan
    assert "Seq Scan on delivery" not in plan


# --- tasks ---------------------------------------------------------------------------------------


def open_task(site: Site, kind: str, cause: str, scope: str = "batch:1") -> int:
    found = site.select(
        "INSERT INTO sendledger.task (kind, cause, scope_key) VALUES (%s, %s, %s)"
        " RETURNING task_id",
        kind, cause, scope,
    )  # fmt: skip
    return int(found[0][0])


def test_tasks_are_listed_by_kind_with_what_to_do_and_closed_by_name(site: Site) -> None:
    unknown = open_task(site, "unknown", "policy.unknown-handoff")
    failed = [open_task(site, "failed", rule) for rule in ("smtp.user-unknown", "smtp.full")]
    listed = json.loads(site.ask("tasks", "--json").out)["tasks"]
    assert [(row["id"], row["kind"]) for row in listed] == [
        (failed[0], "failed"), (failed[1], "failed"), (unknown, "unknown"),
    ]  # fmt: skip
    text = site.ask("tasks").out
    assert "2 failed: " in text
    assert "1 unknown: what do the logs of the relay or provider say?" in text

    closed = site.ask("tasks", "--config", str(site.config), "close", str(unknown))
    assert closed.out == "closed: unknown, policy.unknown-handoff in batch:1\n"
    closed_by = site.select("SELECT closed_by FROM sendledger.task WHERE task_id = %s", unknown)
    assert closed_by == [(getpass.getuser(),)]
    assert {row["id"] for row in json.loads(site.ask("tasks", "--json").out)["tasks"]} == set(
        failed
    )


def test_a_task_that_is_not_open_cannot_be_closed_again(site: Site) -> None:
    number = open_task(site, "held", "policy.poison")
    assert "until `sendledger resume`" in site.ask("tasks", "close", str(number)).out
    before = site.select("SELECT * FROM sendledger.task")
    again = site.ask("tasks", "close", str(number))
    assert again.code == 2
    assert again.err == (
        f"sendledger: task {number} is not open; `sendledger tasks` lists those that are\n"
    )
    assert site.select("SELECT * FROM sendledger.task") == before


def test_no_open_task_is_said_so(site: Site) -> None:
    assert site.ask("tasks").out == "no task is open\n"
