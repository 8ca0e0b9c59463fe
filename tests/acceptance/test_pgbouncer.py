"""Behind PgBouncer in transaction mode: everything works, and what cannot says so."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest

from acceptance.crash_rig import verify
from acceptance.ledger_checker import violations
from acceptance.pooler import POOL_SIZE, pooling
from acceptance.rig import Site, ended, people, relay_of, terminate, until, write_private

NEVER = "1000h"
SESSIONS = """
SELECT count(*) FILTER (WHERE application_name = 'sendledger listener'),
    count(*) FILTER (WHERE application_name <> 'sendledger listener')
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.fixture
async def pooled(site: Site) -> AsyncIterator[Site]:
    """Lend an installation whose DSN leads through a pooler; the file ``direct`` holds the way past it."""
    async with pooling(site.dsn) as dsn:
        write_private(site.folder / "dsn", dsn)
        write_private(site.folder / "direct", site.dsn)
        yield site


def go_past(site: Site) -> None:
    site.settings["database"]["direct_dsn"] = {"$file": "direct"}


def left(site: Site) -> int:
    [(found,)] = site.select(
        "SELECT count(*) FROM sendledger.delivery WHERE status NOT IN ('submitted', 'failed')"
    )
    return int(found)


async def test_two_workers_share_a_few_sessions_and_one_of_them_is_killed(pooled: Site) -> None:
    """Planned, worked, paused, recovered, explained and verified through the pooler."""
    site = pooled
    go_past(site)
    site.settings["worker"]["lease"] = "3m"  # 3 s
    planned = people(80) | {
        "gone": "gone+rcpt-550-5.1.1@home.test",
        "later": "later+greylist-1@home.test",
    }
    site.policy["classification"] = {
        "smtp": [
            {"id": "site.grey", "codes": ["451"], "outcome": "transient", "retry_floor": "30s"}
        ]
    }
    async with (
        relay_of(site, script=["stall-0.05"]) as relay,
        site.process("work") as one,
        site.process("work") as other,
    ):
        await until(lambda: site.count("worker") == 2)
        await site.planned(planned)
        await until(lambda: relay.accepted >= 20)
        [(listening, sessions)] = site.select(SESSIONS)
        assert listening == 2
        assert sessions <= POOL_SIZE
        one.send_signal(signal.SIGKILL)
        assert (await site.tell("pause", "all")).out == "paused\n"
        assert (await site.tell("resume", "all")).code == 0
        unknown = "SELECT count(*) FROM sendledger.delivery WHERE status = 'ambiguous'"
        await until(lambda: site.select(unknown) == [(left(site),)])
        terminate(other)
        ran = await ended(other)
        assert ran.code == 0, ran.err
        assert "Traceback" not in ran.err
    assert violations(site.dsn, relay.journal, planned.keys()) == []
    told = await site.tell("explain", site.row("gone").key)
    assert "smtp.address-unknown" in told.out
    await asyncio.to_thread(verify, site)


async def test_with_the_way_past_it_a_worker_hears_of_work_at_once(pooled: Site) -> None:
    """It polls never; the plan tells it through the pooler, and it hears directly."""
    site = pooled
    go_past(site)
    site.settings["worker"]["poll"] = NEVER
    async with relay_of(site), site.process("work") as worker:
        await until(lambda: site.select(SESSIONS)[0][0] == 1)
        await until(lambda: site.count("worker") == 1)
        for revision in ("r1", "r2"):
            site.batch["content_revision"] = revision
            await site.planned({revision: f"{revision}@home.test"})
            await until(lambda: left(site) == 0)
        terminate(worker)
        assert (await ended(worker)).code == 0


async def test_without_it_a_worker_says_that_it_hears_nothing_and_polls(pooled: Site) -> None:
    site = pooled
    async with relay_of(site), site.process("work") as worker:
        await until(lambda: site.count("worker") == 1)
        await site.planned(people(3))
        await until(lambda: left(site) == 0)
        terminate(worker)
        ran = await ended(worker)
    assert ran.code == 0
    assert ran.err.count("not listening, polling goes on") == 1
    assert "a pooler is in the way: give the way past it as database.direct_dsn" in ran.err


async def test_a_schema_is_migrated_past_the_pooler_and_never_through_it(pooled: Site) -> None:
    site = pooled
    through = await site.tell("db", "migrate")
    assert (through.code, through.out) == (2, "")
    assert through.err == (
        "sendledger: the DSN leads through a connection pooler, where nobody can migrate alone: give"
        " the way past it as database.direct_dsn\n"
    )
    go_past(site)
    site.write()
    assert (await site.tell("db", "migrate")).code == 0
    assert (await site.tell("status")).code == 0
