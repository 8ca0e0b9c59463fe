"""Failure reports about a queue at work: a listener that dies (db-05), a herd (db-07), other clocks (db-08)."""

from __future__ import annotations

import ast
import random
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

import sendledger
from acceptance.documents import SCALE
from acceptance.rig import Site, ended, found_site, people, relay_of, terminate, until
from debian_tools import debian_file
from fixed_policy import POLICY
from sendledger.ledger.schedule import retry_at
from sendledger.postgres import Embedded, StopResult
from sendledger.store.migrate import migrate

HERE = Path(__file__).parent
CORE = Path(sendledger.__file__).parent
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in yaml.safe_load((HERE / "inputs/cases.yaml").read_text())["cases"]
    if case["kind"] == "queue_db"
}
SECOND = timedelta(seconds=1)


def expected(case: str) -> dict[str, Any]:
    found: dict[str, Any] = CASES[case]["expected"]
    return found


def given(case: str) -> dict[str, Any]:
    """Return the scenario of a case."""
    found: dict[str, Any] = yaml.safe_load((HERE / "inputs" / CASES[case]["input"]).read_text())
    return found


@pytest.fixture
def site(tmp_path: Path, database: str, installation_id: UUID) -> Site:
    return found_site(tmp_path, database, installation_id)


def unsubmitted(site: Site) -> bool:
    [(found,)] = site.select("SELECT count(*) FROM sendledger.delivery WHERE status <> 'submitted'")
    return bool(found)


# --- db-05: the listener dies ------------------------------------------------------------------

POLL = timedelta(seconds=1)
LISTENERS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'sendledger listener'
"""
OPENED_LATE = """
SELECT count(*) FROM sendledger.attempt JOIN sendledger.intent USING (intent_id)
JOIN sendledger.batch USING (batch_id) WHERE content_revision = %s AND opened_at > %s
"""


def listeners(site: Site) -> set[int]:
    return {row[0] for row in site.select(LISTENERS)}


def listens_anew(site: Site, killed: int) -> bool:
    return bool(listeners(site) - {killed})


async def picked_up_in_time(site: Site, revision: str) -> bool:
    """Enqueue ten intents; whether each is picked up within the poll and a second, by the database's clock."""
    assert expected("db-05")["new_intent_picked_up_within_s"] == "poll_interval + 1"
    site.batch["content_revision"] = revision
    await site.planned({f"{revision}-{n}": f"{revision}.{n}@home.test" for n in range(10)})
    [(enqueued_at,)] = site.select("SELECT clock_timestamp()")
    await until(lambda: not unsubmitted(site))
    return site.select(OPENED_LATE, revision, enqueued_at + POLL + SECOND) == [(0,)]


def poll_every_second(site: Site) -> None:
    site.settings["worker"]["poll"] = f"{SCALE}s"


async def test_db_05_a_worker_whose_listener_is_killed_polls_and_listens_again(site: Site) -> None:
    poll_every_second(site)
    async with relay_of(site), site.process("work") as worker:
        await until(lambda: listeners(site))
        for times in range(3):
            [killed] = listeners(site)
            site.select("SELECT pg_terminate_backend(%s)", killed)
            assert await picked_up_in_time(site, f"r{times}")
            await until(partial(listens_anew, site, killed))
        assert worker.returncode is None
        assert not expected("db-05")["requires_restart"]
        terminate(worker)
        ran = await ended(worker)
    assert ran.code == 0, ran.err
    assert "Traceback" not in ran.err


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Embedded]:
    """Lend a server of this test's own; the worker only knows its DSN."""
    server = Embedded(tmp_path / "server", wait_max_s=60)
    yield server
    assert server.stop() is not StopResult.IN_USE


async def test_db_05_a_worker_outlives_a_restart_of_the_server_and_listens_again(
    tmp_path: Path, own_server: Embedded, installation_id: UUID
) -> None:
    dsn = own_server.ensure()
    migrate(dsn, installation_id=installation_id)
    site = found_site(tmp_path / "site", dsn, installation_id)
    poll_every_second(site)
    async with relay_of(site), site.process("work") as worker:
        await until(lambda: listeners(site))
        assert own_server.stop() is StopResult.STOPPED
        assert worker.stderr is not None
        noticed = b""
        while noticed.count(b"not listening") < 2:
            noticed += await worker.stderr.readline()
        assert own_server.ensure() == dsn
        await until(lambda: listeners(site))
        assert await picked_up_in_time(site, "r1")
        assert worker.returncode is None
        terminate(worker)
        ran = await ended(worker)
    assert ran.code == 0, ran.err


# --- db-07: everybody comes again in the same second -------------------------------------------


def test_db_07_the_retries_of_an_outage_are_spread_and_none_comes_early() -> None:
    scenario, wanted = given("db-07"), expected("db-07")
    base = timedelta(seconds=scenario["policy"]["base_s"])
    assert scenario["setup"] == "10,000 intents fail transiently within 2 s"
    policy = replace(POLICY, retry_delays=(base,), jitter=0.25)
    failed, again = plays(policy.jitter, base, seed=1), plays(policy.jitter, base, seed=1)
    assert failed == again
    assert wanted["seeded_rng"]

    began = datetime(2026, 3, 2, 9, tzinfo=UTC)
    retries = [
        (
            began + after,
            retry_at(policy, spent=1, floor=None, now=began + after, chance=chance),
        )
        for after, chance in failed
    ]
    early = [at for at, due in retries if due < at + base]
    assert (early == []) is wanted["never_earlier_than_min_delay"]
    buckets = Counter(int((due - began).total_seconds()) for _, due in retries)
    assert wanted["next_attempt_spread"].startswith("max share of retries in any 1 s bucket <= 5 %")
    assert max(buckets.values()) / len(retries) <= 0.05


def plays(jitter: float, base: timedelta, *, seed: int) -> list[tuple[timedelta, float]]:
    """Return when each of ten thousand fails after the beginning, and its chance."""
    assert jitter * base > 20 * SECOND
    chance = random.Random(seed)
    return [(2 * chance.random() * SECOND, chance.random()) for _ in range(10_000)]


def test_db_07_a_floor_that_a_rule_asks_for_is_spread_upward_as_well() -> None:
    """Greylisting and full mailboxes come with a floor of their own; nobody is early for it either."""
    now, floor = datetime(2026, 3, 2, 9, tzinfo=UTC), timedelta(minutes=5)
    chance = random.Random(2)
    due = sorted(
        retry_at(POLICY, spent=1, floor=floor, now=now, chance=chance.random())
        for _ in range(10_000)
    )
    assert due[0] >= now + floor
    assert max(later - sooner for sooner, later in pairwise(due)) < SECOND
    buckets = Counter(int((at - now).total_seconds()) for at in due)
    assert max(buckets.values()) <= 500


# --- db-08: a clock that is off ----------------------------------------------------------------

OFFSETS = [timedelta(seconds=s) for s in given("db-08")["app_clock_offset_s"]]
AHEAD, BEHIND = max(OFFSETS), min(OFFSETS)
CLOCKS = {"now", "utcnow", "today", "time", "time_ns", "localtime", "gmtime", "fromtimestamp"}


def skewed(offset: timedelta) -> dict[str, str]:
    """Return the environment of a process whose clock is off by *offset*, but runs as fast as any."""
    library = debian_file("usr/lib/*/faketime/libfaketime.so.1", package="libfaketime")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{offset.total_seconds():+.0f}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def test_db_08_nothing_that_decides_reads_the_clock_of_its_process() -> None:
    """Neither core nor policy: every due instant, lease and deadline is compared in the database.

    The kit for channel authors has a clock of its own, and decides nothing.
    """
    assert expected("db-08")["lease_compared_with"] == "database clock only"
    found = [
        f"{path.relative_to(CORE)}: {ast.unparse(node)}"
        for path in CORE.rglob("*.py")
        if "conformance" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CLOCKS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in {"datetime", "date", "time"}
    ]
    assert found == []


@pytest.mark.parametrize("offset", OFFSETS, ids=lambda o: f"{o.total_seconds():+.0f}s")
async def test_db_08_a_skewed_clock_neither_fails_an_enqueue_nor_releases_a_row_early(
    site: Site, offset: timedelta
) -> None:
    async with relay_of(site) as relay:
        site.write_recipients({"now": "now@home.test"})
        env = skewed(offset)
        plan = ("plan", "batch.yaml", "-r", "recipients.csv")
        enqueued = site.ask(*plan, env=env)
        [(due_at,)] = site.select("SELECT clock_timestamp() + interval '4 seconds'")
        site.batch.update(content_revision="later", not_before=due_at.isoformat())
        site.write()
        site.write_recipients({"later": "later@home.test"})
        later = site.ask(*plan, env=env)
        assert (enqueued.code == later.code == 0) is not expected("db-08")["enqueue_fails"]

        async with site.process("work", "--drain", "--within", "1h", env=env) as worker:
            ran = await ended(worker)
        assert ran.code == 0, ran.err
        assert site.select(
            "SELECT count(*) FROM sendledger.attempt JOIN sendledger.intent USING (intent_id)"
            " WHERE opened_at < eligible_at"
        ) == [(expected("db-08")["released_before_due_by_db_clock"],)]
        assert relay.accepted == 2
        assert {row.status for row in site.rows()} == {"submitted"}


async def test_db_08_workers_twenty_minutes_apart_leave_each_other_their_leases(site: Site) -> None:
    """While both live nothing is recovered; what a killed one leaves is, when its lease has really ended.

    Nothing is opened unless a third of its lease is left.
    """
    site.settings["worker"]["lease"] = "3m"  # 3 s
    planned = people(24)
    async with (
        relay_of(site, script=["stall-0.5"]) as relay,
        site.process("work", env=skewed(AHEAD)) as ahead,
        site.process("work", env=skewed(BEHIND)) as behind,
    ):
        await until(lambda: site.count("worker") == 2)
        await site.planned(planned)
        await until(lambda: relay.accepted >= 12)
        assert site.count("observation WHERE source = 'lease'") == 0
        ahead.send_signal(signal.SIGKILL)
        await ahead.wait()
        in_flight = "SELECT count(*) FROM sendledger.delivery WHERE awaits = 'result'"
        await until(
            lambda: (
                {row.status for row in site.rows()} <= {"submitted", "ambiguous"}
                and site.select(in_flight) == [(0,)]
            )
        )
        terminate(behind)
        assert (await ended(behind)).code == 0
    early = site.select(
        "SELECT count(*) FROM sendledger.observation AS o JOIN sendledger.attempt AS a"
        " ON a.intent_id = o.intent_id AND a.number = o.attempt"
        " WHERE o.source = 'lease' AND o.received_at < a.opened_at + interval '1 second'"
    )
    assert early == [(0,)]
    assert Counter(row.attempts for row in site.rows()) == {1: len(planned)}
