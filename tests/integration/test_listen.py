"""Listening: a hint that wakes dispatch at once, and a connection that comes back by itself."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from io import StringIO
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

import ledger_rig
from acceptance.rig import Site, found_site, people
from ledger_rig import Rig
from sendledger.journal.scopes import pause, resume
from sendledger.logs import configure_logs
from sendledger.store import listening
from sendledger.store.database import DatabaseAway
from sendledger.work.listen import Listener

DEADLINE_S = 30.0
LISTENERS = b"""
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'sendledger listener'
"""
CUT = b"SELECT pg_terminate_backend(%s)"


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig


@pytest.fixture
def site(tmp_path: Path, database: str, installation_id: UUID) -> Site:
    return found_site(tmp_path, database, installation_id)


@pytest.fixture
def log() -> Iterator[StringIO]:
    """Lend what is logged."""
    stream = StringIO()
    configure_logs(json=True, level="warning", stream=stream)
    yield stream
    configure_logs(json=False, level="info")


def tries(log: StringIO) -> list[int]:
    """Return how many tries each line of the listener speaks of."""
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    return [line["tries"] for line in lines if line["event"].startswith("not listening")]


@dataclass(slots=True)
class Heard:
    """A listener for two channels, and how often each was woken."""

    listener: Listener = field(init=False)
    woken: Counter[str] = field(default_factory=Counter)

    def wake(self, channel: str) -> None:
        """Count."""
        self.woken[channel] += 1

    def was_woken(self, channel: str, times: int) -> bool:
        """Whether *channel* was woken that often."""
        return self.woken[channel] == times


@asynccontextmanager
async def listening_at(dsn: str) -> AsyncIterator[Heard]:
    heard = Heard()
    wake: dict[str, Callable[[], None]] = {
        channel: partial(heard.wake, channel) for channel in ("mail", "text", "email")
    }
    heard.listener = Listener(dsn, wake, lambda: 0.0)
    task = asyncio.create_task(heard.listener.run())
    try:
        await until(lambda: heard.listener.listening)
        yield heard
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        await asyncio.sleep(0.01)


async def notify(rig: Rig, channel: str) -> None:
    async with rig.database.connection() as connection:
        await listening.notify_work(connection, channel)


async def listened_out(heard: AsyncIterator[str | None]) -> None:
    """Listen for as long as there is anything to hear."""
    async for _ in heard:
        pass


async def cut(rig: Rig) -> None:
    """Cut every listener off, and wait until the server is rid of it."""
    async with rig.database.connection() as connection:
        cursor = await connection.execute(LISTENERS)
        pids = [row[0] for row in await cursor.fetchall()]
        assert pids
        for pid in pids:
            await connection.execute(CUT, [pid])


async def test_whoever_listens_is_woken_by_work_of_its_channel_and_by_no_other(
    rig: Rig, shared_database: str
) -> None:
    async with listening_at(shared_database) as heard:
        before = heard.woken.copy()
        for channel in ("fax", "mail"):
            await notify(rig, channel)
        await until(lambda: heard.woken != before)
        assert heard.woken - before == {"mail": 1}


async def test_resuming_wakes_whoever_waits(rig: Rig, shared_database: str) -> None:
    async with listening_at(shared_database) as heard:
        await pause(rig.database, "all", actor="clerk")
        before = heard.woken.copy()
        await resume(rig.recorder, "all", channels=["mail", "text"], actor="clerk")
        await until(lambda: heard.woken - before == {"mail": 1, "text": 1})


async def test_whoever_begins_to_listen_looks_for_what_was_missed(shared_database: str) -> None:
    async with listening_at(shared_database) as heard:
        assert heard.woken == {"mail": 1, "text": 1, "email": 1}


async def test_a_listener_that_is_cut_off_again_and_again_comes_back_each_time_as_soon(
    rig: Rig, shared_database: str, log: StringIO
) -> None:
    """It counts tries since it last listened: a cut once a week must not make it slower for good."""
    async with listening_at(shared_database) as heard:
        for times in range(1, 4):
            await cut(rig)
            await until(partial(heard.was_woken, "mail", times + 1))
            await notify(rig, "text")
            await until(partial(heard.was_woken, "text", 2 * times + 1))
    assert tries(log) == [1, 1, 1]


async def test_a_listener_that_finds_no_server_says_so_and_tries_on(
    unused_tcp_port: int, log: StringIO
) -> None:
    listener = Listener(f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/none", {}, lambda: 0.0)
    task = asyncio.create_task(listener.run())
    await until(lambda: tries(log)[:2] == [1, 2])
    task.cancel()
    await asyncio.wait([task])
    assert not listener.listening


async def test_a_quiet_connection_is_asked_for_a_sign_of_life(
    rig: Rig, shared_database: str
) -> None:
    """The peer may be gone without a word; then the next question ends in an error, not in silence."""
    heard = listening.hear_work(shared_database, every=timedelta(milliseconds=20))
    assert [await anext(heard) for _ in range(3)] == [None, None, None]
    await cut(rig)
    with pytest.raises(DatabaseAway):
        await listened_out(heard)


async def test_hearing_ends_its_connection(shared_database: str) -> None:
    heard = listening.hear_work(shared_database, every=timedelta(seconds=5))
    await anext(heard)
    await heard.aclose()

    def gone() -> bool:
        with psycopg.connect(shared_database) as connection:
            return connection.execute(LISTENERS).fetchall() == []

    await until(gone)


async def test_whoever_plans_tells_the_workers_of_the_channel_and_only_of_something_new(
    site: Site,
) -> None:
    async with listening_at(site.dsn) as heard:
        heard.woken.clear()
        await site.planned(people(2))
        await until(lambda: heard.woken["email"] == 1)
        await site.planned(people(2))
        site.batch["content_revision"] = "r2"
        await site.planned(people(2))
        await until(lambda: heard.woken["email"] == 2)
