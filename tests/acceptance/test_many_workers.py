"""Several worker processes on one database: they share the work and what a person decides."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from acceptance.crew import NEVER, all_submitted, at_work, count, count_open, crew, hold_to_account
from acceptance.door import Door
from acceptance.rig import (
    Site,
    drained,
    ended,
    people,
    relay_of,
    terminate,
    until,
    write_keys,
    write_private,
)
from sendledger_sandbox import CaptureServer, ConnectionInfo, Phase, read_journal

BATCH = "batch:spring/r1/email"


# --- who works ---------------------------------------------------------------------------------


async def workers_of(site: Site) -> list[dict[str, object]]:
    ran = await site.tell("status", "--json")
    found: list[dict[str, object]] = json.loads(ran.out)["workers"]
    return found


async def test_the_status_lists_who_works_and_who_has_fallen_silent(site: Site) -> None:
    async with relay_of(site), crew(site) as workers:
        await at_work(site)
        listed = await workers_of(site)
        assert {found["pid"] for found in listed} == {worker.pid for worker in workers}
        assert [found["channels"] for found in listed] == [["email"]] * 2
        assert [found["in_flight"] for found in listed] == [0, 0]
        shown = (await site.tell("status")).out
        assert (
            len(
                re.findall(
                    r"^worker \S+ pid \d+ .*: at work, 0 in flight, email", shown, re.MULTILINE
                )
            )
            == 2
        )

        killed, stays = workers
        killed.kill()
        await killed.wait()
        site.select(
            "UPDATE sendledger.worker SET seen_at = seen_at - interval '1 minute' WHERE pid = %s",
            killed.pid,
        )
        shown = " ".join((await site.tell("status")).out.split())
        assert re.search(rf"pid {killed.pid} \S+ \S+ silent, seen \d+ s ago", shown)
        assert re.search(rf"pid {stays.pid} \S+ \S+ at work", shown)

        terminate(stays)
        await ended(stays)
        assert [found["pid"] for found in await workers_of(site)] == [killed.pid]


# --- pauses ------------------------------------------------------------------------------------


@asynccontextmanager
async def two_with_a_relay_each(
    site: Site, count: int
) -> AsyncIterator[tuple[CaptureServer, CaptureServer]]:
    """Run two workers that differ in their relay only, so that each can be told by what arrives."""
    site.settings["worker"]["poll"] = NEVER
    async with (
        relay_of(site, script=["stall-0.2"]) as one,
        CaptureServer(journal=site.folder / "other.jsonl", script=["stall-0.2"]) as other,
    ):
        await site.planned(people(count))
        text = site.config.read_text().replace(f"port: '{one.port}'", f"port: '{other.port}'")
        assert str(other.port) in text
        (site.folder / "other.yaml").write_text(text)
        async with crew(site, 1), crew(site, 1, "--config", "other.yaml"):
            await at_work(site)
            yield one, other


@pytest.mark.parametrize("scope", ["all", BATCH])
async def test_a_pause_stops_every_worker_at_once_and_a_resumption_wakes_them_all(
    site: Site, scope: str
) -> None:
    """When the command returns nothing more is opened anywhere; nobody polls, and everybody goes on."""
    async with two_with_a_relay_each(site, 240) as relays:
        await until(lambda: all(relay.accepted > 10 for relay in relays))
        assert (await site.tell("pause", scope)).code == 0
        opened = site.count("attempt")
        assert opened < 240
        await until(lambda: count_open(site) == 0)
        await until(lambda: count(site, "claim_token IS NOT NULL") == 0)
        assert site.count("attempt") == opened == sum(relay.accepted for relay in relays)

        before = [relay.accepted for relay in relays]
        assert (await site.tell("resume", scope)).code == 0
        await until(
            lambda: all(relay.accepted > then for relay, then in zip(relays, before, strict=True))
        )
        await until(lambda: all_submitted(site))
        assert sum(relay.accepted for relay in relays) == 240


async def test_rows_of_a_paused_batch_are_held_once_each_whichever_worker_meets_them(
    site: Site,
) -> None:
    async with relay_of(site) as relay:
        await site.planned(people(200))
        await site.tell("pause", BATCH)
        site.batch["content_revision"] = "r2"
        others = {f"o{n}": f"other{n}@home.test" for n in range(30)}
        await site.planned(others)
        async with crew(site):
            await until(lambda: count(site, "awaits = 'release'") == 200)
            await until(lambda: count(site, "status = 'submitted'") == 30)
            assert site.select(
                "SELECT count(*), count(DISTINCT intent_id) FROM sendledger.observation"
                " WHERE rule = 'policy.paused'"
            ) == [(200, 200)]
            resumed = await site.tell("resume", BATCH)
            # A worker's sweep may find them first: what counts is that each is released once.
            assert re.fullmatch(r"resumed; \d+ rows? released\n", resumed.out)
            await until(lambda: all_submitted(site))
        assert site.select(
            "SELECT count(*), count(DISTINCT intent_id) FROM sendledger.observation"
            " WHERE ruling = 'release'"
        ) == [(200, 200)]
        hold_to_account(site, relay, people(200) | others)


# --- lanes -------------------------------------------------------------------------------------


async def test_transactional_rows_go_first_while_a_bulk_batch_still_gets_its_share(
    site: Site,
) -> None:
    """Both are due at once, and nobody polls: a lane that had more rows is claimed as soon as there is room."""
    site.settings["worker"]["poll"] = NEVER
    site.settings["channels"]["email"]["slots"] = "1"
    async with relay_of(site, script=["stall-0.08"]) as relay:
        await site.planned(people(20))
        site.batch.update(content_revision="code", lane="transactional")
        await site.planned({f"t{n}": f"urgent{n}@home.test" for n in range(20)})
        async with crew(site, 1):
            await until(lambda: all_submitted(site))
        order = ["urgent" in entry.rcpt[0] for entry in read_journal(relay.journal)]
    assert not all(order[:16])
    assert sum(order[:20]) >= 14


# --- stopping without a database ---------------------------------------------------------------


class Gate:
    """Holds every message back before its answer until it is opened."""

    def __init__(self) -> None:
        self.waiting = 0
        self.open = asyncio.Event()

    async def __call__(self, phase: Phase, _count: int, _info: ConnectionInfo) -> None:
        if phase is Phase.ACCEPTED:
            self.waiting += 1
            await self.open.wait()


async def test_a_stop_while_the_database_is_away_ends_within_two_graces_and_loses_nothing(
    site: Site,
) -> None:
    """What was in flight is recovered by the next worker: its answers were never recorded."""
    site.settings["worker"].update(stop_grace="1m", lease="2m")  # 1 s and 2 s
    gate = Gate()
    async with relay_of(site, observer=gate) as relay, Door(site.dsn) as door:
        await site.planned(people(20))
        write_private(site.folder / "dsn", door.dsn)
        async with site.process("work") as worker:
            await until(lambda: gate.waiting == 4)
            await door.shut()
            gate.open.set()
            await until(lambda: relay.accepted == 4)
            terminate(worker)
            ran = await ended(worker)
        assert ran.code == 2
        assert ran.err.endswith(
            "sendledger: stopped while the database was away: what was in flight is recorded as"
            " unknown by the next worker\n"
        )
        assert "Traceback" not in ran.err
        assert count_open(site) == 4
        write_private(site.folder / "dsn", site.dsn)
        await drained(site)
        assert Counter(row.status for row in site.rows()) == {"ambiguous": 4, "submitted": 16}
        hold_to_account(site, relay, people(20))


# --- strangers ---------------------------------------------------------------------------------


async def test_another_installation_is_refused_by_name_and_disturbs_nobody(
    site: Site, tmp_path: Path
) -> None:
    async with relay_of(site) as relay, crew(site, 1):
        await at_work(site, 1)
        stranger = tmp_path / "stranger"
        write_keys(stranger / "state/keys.json", UUID(int=7))
        write_private(stranger / "dsn", site.dsn)
        other = Site(folder=stranger, dsn=site.dsn, settings=site.settings)
        other.write()
        refused = [await other.run("work")]
        refused += [await other.tell(*command) for command in (["pause", "all"], ["db", "migrate"])]
        for ran in refused:
            assert ran.code != 0
            assert "this database belongs to another installation" in ran.err
        await site.planned(people(5))
        await until(lambda: all_submitted(site))
        assert site.count("worker") == 1
        hold_to_account(site, relay, people(5))
