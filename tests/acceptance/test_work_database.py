"""Postgres goes away for a while: the worker survives, results are recorded, nobody is submitted to twice."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from acceptance.rig import Site, ended, people, relay_of, terminate, until, working
from sendledger.plugin import Content
from sendledger.postgres import Embedded
from sendledger.store.database import DatabaseAway
from sendledger.store.planning import ContentRow
from sendledger.work.context import Workshop
from sendledger_sandbox import CaptureServer, read_journal

CUT = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'sendledger%%'
"""


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[tuple[Site, Embedded]]:
    """Lend an installation with an embedded server of its own."""
    server = Embedded(tmp_path / "state", wait_max_s=60)
    site = Site(folder=tmp_path, dsn=server.ensure())
    server.release()
    site.settings["database"] = "embedded"
    yield site, server
    server.stop()
    assert not server.status().running


async def test_a_worker_whose_connections_are_cut_again_and_again_loses_and_repeats_nothing(
    site: Site,
) -> None:
    async with relay_of(site, script=["stall-0.05"]) as relay:
        await site.planned(people(120))
        async with site.process("work", "--drain", "--within", "1m") as worker:
            for accepted in (5, 20, 40, 60, 80):
                await accepted_by(relay, accepted)
                [(cut,)] = site.select(CUT)
                assert cut > 0
            ran = await ended(worker, within_s=60)
        assert ran.code == 0, ran.err
        assert "Traceback" not in ran.err
        await all_are_submitted_once(site, relay.journal, 120)


async def test_a_worker_outlives_a_server_that_was_killed_and_started_again(
    own_server: tuple[Site, Embedded],
) -> None:
    site, server = own_server
    async with relay_of(site, script=["stall-0.05"]) as relay:
        await site.planned(people(80))
        async with site.process("work") as worker:
            await accepted_by(relay, 10)
            killed = server.status().pid
            assert killed is not None
            os.kill(killed, signal.SIGKILL)
            await until(lambda: not server.status().running)
            started = await site.run("db", "start")
            assert started.out.startswith("running: PostgreSQL")
            await until(lambda: all(row.status == "submitted" for row in site.rows()), within_s=60)
            terminate(worker)
            ran = await ended(worker)
        assert ran.code == 0, ran.err
        assert "Traceback" not in ran.err
        await all_are_submitted_once(site, relay.journal, 80)


async def test_rows_whose_admission_met_an_absent_database_come_free_with_their_lease(
    site: Site,
) -> None:
    """The claim stands and the content was not read: nobody holds those rows, so nobody may renew them."""
    site.settings["worker"].update(lease="60s", sweep="6s")  # 1 s and 0.1 s
    async with relay_of(site):
        await site.planned(people(3))
        async with working(site, adapt=absent_once):
            await until(lambda: all(row.status == "submitted" for row in site.rows()))
        assert {row.attempts for row in site.rows()} == {1}


def absent_once(shop: Workshop) -> Workshop:
    """Let the database be away when a content revision is compiled for the first time."""
    failures = iter([DatabaseAway("the database went away")])

    def compile_content(channel: str, stored: ContentRow) -> Content:
        for failure in failures:
            raise failure
        return shop.compile_content(channel, stored)

    return replace(shop, compile_content=compile_content)


async def accepted_by(relay: CaptureServer, count: int) -> None:
    await until(lambda: relay.accepted >= count)


async def all_are_submitted_once(site: Site, journal: Path, count: int) -> None:
    rows = site.rows()
    assert Counter(row.status for row in rows) == {"submitted": count}
    assert {row.attempts for row in rows} == {1}
    assert {row.claimed for row in rows} == {False}
    sent = Counter(entry.rcpt for entry in read_journal(journal))
    assert len(sent) == count
    assert set(sent.values()) == {1}
    proven = await site.tell("rebuild", "--verify")
    assert proven.code == 0, proven.out
