"""Metrics of a real ledger: read by loops, served by a thread, never by a scan when somebody looks."""

from __future__ import annotations

import asyncio
import re
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from acceptance.rig import Site, ended, found_site, people, relay_of, terminate, until, working
from sendledger.metrics.exporter import Exporter
from sendledger.metrics.labels import TASK_KINDS
from sendledger.metrics.serving import AddressRefused, serving
from sendledger.settings.address import Address
from sendledger.store.database import Database, DatabaseAway

LOCAL = Address(host="127.0.0.1", port=0)
GRACE = timedelta(minutes=5)


@pytest.fixture
def site(tmp_path: Path, database: str, installation_id: UUID) -> Site:
    return found_site(tmp_path, database, installation_id)


@asynccontextmanager
async def exporter_of(dsn: str) -> AsyncIterator[tuple[Exporter, CollectorRegistry]]:
    async with Database(dsn, connections_max=2) as database:
        exporter = Exporter(database, channels=["email"], grace=GRACE)
        registry = CollectorRegistry()
        registry.register(exporter)
        yield exporter, registry


def value(text: str, name: str, **labels: str) -> float | None:
    """Return the value of the only series of *name* that has these labels, or None."""
    found = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert len(found) <= 1
    return found[0] if found else None


def get(address: Address, path: str = "/metrics", accept: str = "*/*") -> str:
    request = urllib.request.Request(f"http://{address}{path}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


# --- the ledger ----------------------------------------------------------------------------------


async def test_the_oldest_overdue_row_is_shown_with_its_intent_and_its_age(site: Site) -> None:
    await site.planned(people(3))
    for recipient, age in (("s1", "1 h"), ("s2", "2 h"), ("s3", "1 min")):
        site.select(
            "UPDATE sendledger.delivery SET due_at = now() - %s::interval WHERE intent_id = %s",
            age, site.row(recipient).intent_id,
        )  # fmt: skip
    async with exporter_of(site.dsn) as (exporter, registry):
        await exporter.watch()
        text = generate_latest(registry).decode()
    name = "sendledger_oldest_overdue"
    age_s = value(text, f"{name}_seconds", channel="email", awaits="dispatch")
    assert age_s is not None
    assert 7200 <= age_s < 7300
    assert value(text, f"{name}_info", awaits="dispatch", intent_key=site.row("s2").key) == 1
    assert text.count(f"{name}_info{{") == 1


async def test_rows_are_counted_by_channel_and_status(site: Site) -> None:
    await site.planned(people(3))
    async with exporter_of(site.dsn) as (exporter, registry):
        assert value(generate_latest(registry).decode(), "sendledger_deliveries") is None
        await exporter.count()
        text = generate_latest(registry).decode()
    assert value(text, "sendledger_deliveries", channel="email", status="planned") == 3
    assert value(text, "sendledger_deliveries", channel="email", status="failed") == 0


async def test_pauses_tasks_and_the_inbox_are_shown(site: Site) -> None:
    site.select(
        "INSERT INTO sendledger.pause (scope_key, rule, began_by) VALUES ('all', 'smtp.auth', 'x')"
    )
    site.select(
        "INSERT INTO sendledger.task (kind, cause, scope_key) VALUES ('paused', 'x', 'all')"
    )
    site.select(
        "INSERT INTO sendledger.inbox (received_at, channel, source, identity, evidence, body)"
        " VALUES (now() - interval '10 min', 'email', 'receipt', 'event-1', '{}', '')"
    )
    async with exporter_of(site.dsn) as (exporter, registry):
        await exporter.watch()
        text = generate_latest(registry).decode()
    assert value(text, "sendledger_channel_paused", channel="email") == 1
    assert value(text, "sendledger_channel_backing_off", channel="email") == 0
    assert value(text, "sendledger_tasks_open", kind="paused") == 1
    age_s = value(text, "sendledger_inbox_age_seconds")
    assert age_s is not None
    assert 600 <= age_s < 700


async def test_a_snapshot_that_is_held_open_shows_its_age(site: Site) -> None:
    """It keeps dead rows of the queue alive; nothing else in the metrics would tell why claims slow down."""
    with psycopg.connect(site.dsn) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT txid_current()")
        for _ in range(3):
            site.select("INSERT INTO sendledger.policy_revision VALUES (gen_random_uuid(), '{}')")
        async with exporter_of(site.dsn) as (exporter, registry):
            await exporter.watch()
            text = generate_latest(registry).decode()
    behind, age_s = (
        value(text, f"sendledger_xmin_age_{unit}") for unit in ("transactions", "seconds")
    )
    assert behind is not None
    assert behind >= 3
    assert age_s is not None
    assert age_s > 0


def test_the_kinds_of_task_are_those_the_ledger_admits(site: Site) -> None:
    [(check,)] = site.select(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid = 'sendledger.task'::regclass AND conname = 'task_kind_check'"
    )
    assert set(re.findall(r"'([a-z-]+)'", check)) == set(TASK_KINDS)


async def test_while_the_database_is_away_the_last_readings_stay_and_grow_old(site: Site) -> None:
    await site.planned(people(1))
    async with exporter_of(site.dsn) as (exporter, registry):
        await exporter.watch()
        await exporter.count()
        before = generate_latest(registry).decode()
        await exporter._database.__aexit__()
        with pytest.raises(DatabaseAway):
            await exporter.watch()
        with pytest.raises(DatabaseAway):
            await exporter.count()
        after = generate_latest(registry).decode()
    for name in ("sendledger_watch_age_seconds", "sendledger_counts_age_seconds"):
        young, old = value(before, name), value(after, name)
        assert young is not None
        assert old is not None
        assert old > young
    assert value(after, "sendledger_deliveries", channel="email", status="planned") == 1


async def test_a_database_that_was_never_there_is_told_by_the_age_alone() -> None:
    async with exporter_of("postgresql://nobody@127.0.0.1:1/none") as (_, registry):
        text = generate_latest(registry).decode()
    assert value(text, "sendledger_watch_age_seconds") is not None
    assert "oldest_overdue" not in text


async def test_the_loops_read_on_after_a_failure(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sendledger.metrics.exporter.WATCH_S", 0.05)
    site.select("ALTER TABLE sendledger.task RENAME TO elsewhere")
    errors: list[str] = []

    def failed() -> bool:
        errors.append(capsys.readouterr().err)
        return "metrics not read" in "".join(errors)

    async with exporter_of(site.dsn) as (exporter, registry):
        reading = asyncio.create_task(exporter.run())
        await until(failed)
        site.select("ALTER TABLE sendledger.elsewhere RENAME TO task")
        await until(lambda: "sendledger_tasks_open" in generate_latest(registry).decode())
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    assert "".join(errors).count("metrics not read") == 1


# --- the door ------------------------------------------------------------------------------------


def test_a_scrape_is_answered_in_either_format_and_other_paths_are_not_there() -> None:
    registry = CollectorRegistry()
    with serving(registry, LOCAL) as address:
        assert get(address) == get(address, "/") == ""
        assert get(address, accept="application/openmetrics-text; version=1.0.0") == "# EOF\n"
        with pytest.raises(urllib.error.HTTPError, match="404") as missing:
            get(address, "/ledger")
        missing.value.close()
    with pytest.raises(urllib.error.URLError):
        get(address)


def test_a_port_that_is_taken_is_one_sentence() -> None:
    with (
        serving(CollectorRegistry(), LOCAL) as address,
        pytest.raises(AddressRefused, match=f"{address}: address already in use; end what"),
        serving(CollectorRegistry(), address),
    ):
        pytest.fail("two servers took one port")


def test_a_port_that_was_just_left_can_be_taken_again() -> None:
    with serving(CollectorRegistry(), LOCAL) as address:
        get(address)
    with serving(CollectorRegistry(), address) as again:
        assert again == address


def test_a_peer_that_says_nothing_keeps_nobody_from_the_metrics_or_from_ending() -> None:
    with serving(CollectorRegistry(), LOCAL) as address:
        silent = socket.create_connection((address.host, address.port))
        assert get(address) == ""
    silent.close()


# --- a worker ------------------------------------------------------------------------------------


@asynccontextmanager
async def worker_of(site: Site) -> AsyncIterator[tuple[asyncio.subprocess.Process, Address]]:
    """Lend a worker process that serves metrics, and where."""
    async with site.process("work", "--metrics", "127.0.0.1:0") as process:
        assert process.stderr is not None
        found = None
        while found is None:
            line = await asyncio.wait_for(process.stderr.readline(), 30)
            assert line, "the worker ended"
            found = re.search(rb"metrics at http://127\.0\.0\.1:(\d+)/metrics", line)
        yield process, Address(host="127.0.0.1", port=int(found[1]))


async def test_a_worker_shows_what_it_did_and_nothing_of_anybody(site: Site) -> None:
    names = {"s1": "Canary Firstname", "s2": "Canary Secondname"}
    destinations = {"s1": "canary1@home.test", "s2": "canary2+rcpt-550-5.1.1@home.test"}
    async with relay_of(site):
        await site.planned(destinations, names)
        async with worker_of(site) as (process, address):
            await until(lambda: all(row.status in {"submitted", "failed"} for row in site.rows()))

            def both_counted() -> bool:
                text = get(address)
                return (
                    answers(text) == 2 and value(text, "sendledger_watch_age_seconds") is not None
                )

            await until(both_counted)
            text = get(address)
            terminate(process)
            assert (await ended(process)).code == 0
    assert value(text, "sendledger_outcomes_total", channel="email", outcome="accepted") == 1
    assert value(text, "sendledger_submission_seconds_count", channel="email") == 2
    rows = value(text, "sendledger_group_commit_rows_sum", commit="opening")
    assert rows == 2
    claims = value(text, "sendledger_claim_seconds_count", channel="email")
    assert claims is not None
    assert claims > 0
    for secret in ("canary", "Canary", "home.test", "school.example", "s1", "s2"):
        assert secret not in text


def answers(text: str) -> float:
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "sendledger_outcomes_total"
    )


async def test_a_handoff_that_a_dead_worker_left_is_counted_by_the_one_that_records_it(
    site: Site,
) -> None:
    async with relay_of(site):
        await site.planned({"s1": "parent1+stall-60@home.test"})
        async with site.process("work"):
            await until(lambda: site.row("s1").status == "submitting")
        async with working(site) as worker:
            await until(lambda: site.row("s1").status == "ambiguous")
            labels = {"channel": "email", "outcome": "ambiguous", "scope": "none"}
            await until(
                lambda: (
                    worker.meters.registry.get_sample_value("sendledger_outcomes_total", labels)
                    == 1
                )
            )


async def test_a_worker_does_not_start_when_its_metrics_have_no_place(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = await site.run("work", "--drain", "--metrics", f"127.0.0.1:{port}")
    assert ran.code == 2
    assert ran.err == (
        f"sendledger: metrics cannot be served at 127.0.0.1:{port}: address already in use; end what"
        " listens there, or name another address with --metrics\n"
    )
    malformed = await site.run("work", "--metrics", "9464")
    assert malformed.code == 2
    assert malformed.err.startswith("sendledger: --metrics: expected HOST:PORT")
