"""``sendledger serve`` as a process: receipts in, folded, and none forgotten however it ends."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import aiohttp
import pytest

from acceptance.rig import DEADLINE_S, Site, drained, ended, terminate, until, working
from plugins_for_tests.courier import form, office, signed
from reception_kit import PUBLIC_URL, courier_site, path_of

TESTS = Path(__file__).resolve().parents[1]
LISTENING = re.compile(r"receipts at http://(127\.0\.0\.1:\d+)")
METRICS = re.compile(r"metrics at (http://127\.0\.0\.1:\d+/metrics)")


@pytest.fixture
def site(
    tmp_path: Path, database: str, installation_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    with courier_site(tmp_path, database, installation_id, monkeypatch) as (site, _):
        yield site


def env(site: Site) -> dict[str, str]:
    """Return what lets another process import the courier."""
    return {"PYTHONPATH": os.pathsep.join([str(site.folder / "plugins"), str(TESTS)])}


@dataclass(slots=True, kw_only=True)
class Served:
    """A process that takes receipts in."""

    process: asyncio.subprocess.Process
    client: aiohttp.ClientSession
    address: str
    said: str

    async def tell(self, word: str, letter: int = 0) -> int:
        """Report *word* of a letter; returns the status."""
        path, body = path_of(letter), form(word)
        headers = signed(f"{PUBLIC_URL}{path}", body)
        where = f"http://{self.address}{path}"
        async with self.client.post(where, data=body, headers=headers) as answer:
            return answer.status


@asynccontextmanager
async def served(site: Site, *options: str) -> AsyncIterator[Served]:
    """Lend a process of ``sendledger serve``, which may end before the block does."""
    async with (
        site.process("serve", *options, env=env(site)) as process,
        aiohttp.ClientSession() as client,
    ):
        assert process.stderr is not None
        said = ""
        async with asyncio.timeout(DEADLINE_S):
            while (found := LISTENING.search(said)) is None:
                assert process.returncode is None
                said += (await process.stderr.readline()).decode()
        yield Served(process=process, client=client, address=found[1], said=said)


async def sent(site: Site, count: int = 1) -> None:
    await site.planned({f"s{n}": f"pat{n}@home.test" for n in range(count)})
    await drained(site)
    assert len(office.submitted) == count


@pytest.mark.parametrize("options", [(), ("--no-work",)])
async def test_a_receipt_is_folded_by_the_process_that_took_it_in(
    site: Site, options: tuple[str, ...]
) -> None:
    await sent(site)
    async with served(site, *options) as there:
        assert await there.tell("arrived") == 204
        await until(lambda: site.row("s0").status == "delivered")
        terminate(there.process)
        ran = await ended(there.process)
    assert ran.code == 0, ran.err


async def test_the_process_hands_over_as_a_worker_does_unless_it_is_told_not_to(site: Site) -> None:
    async with served(site, "--no-work"):
        await site.planned({"s0": "pat@home.test"})
        async with served(site):
            await until(lambda: site.row("s0").status == "submitted")
            assert site.count("worker") == 1


async def test_what_was_acknowledged_is_not_forgotten_when_the_process_is_killed(
    site: Site,
) -> None:
    await sent(site, 20)
    async with served(site) as there:
        answers = await asyncio.gather(*(there.tell("arrived", n) for n in range(20)))
        there.process.kill()
        await there.process.wait()
    assert set(answers) == {204}
    async with working(site):
        await until(lambda: {row.status for row in site.rows()} == {"delivered"})
    assert site.count("inbox") == 0


async def test_two_processes_take_in_and_fold_without_getting_into_each_others_way(
    site: Site,
) -> None:
    await sent(site, 20)
    async with served(site) as one, served(site, "--no-work") as other:
        for word in ("sent", "arrived"):
            told = [there.tell(word, n) for n in range(20) for there in (one, other)]
            assert set(await asyncio.gather(*told)) == {204}
        await until(lambda: {row.status for row in site.rows()} == {"delivered"})
    [(rows,)] = site.select("SELECT count(*) FROM sendledger.observation WHERE source = 'receipt'")
    assert rows == 40


def test_it_does_not_start_where_receipts_have_nowhere_to_go(site: Site) -> None:
    del site.settings["http"]["public_url"]
    site.write()
    ran = site.ask("serve", env=env(site))
    assert ran.code == 2
    assert "receipts of channel letter have nowhere to go: set http.public_url" in ran.err
    checked = site.ask("check", env=env(site))
    assert checked.code == 0
    assert "warning" in checked.out
    assert "http.public_url" in checked.out


def test_an_address_that_is_taken_is_named(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        site.settings["http"]["listen"] = address
        site.write()
        ran = site.ask("serve", env=env(site))
    assert ran.code == 2
    assert f"receipts cannot be taken in at {address}: address already in use" in ran.err


async def test_metrics_show_what_became_of_receipts(site: Site) -> None:
    await sent(site)
    async with served(site, "--no-work", "--metrics", "127.0.0.1:0") as there:
        shown = METRICS.search(there.said)
        assert shown is not None
        assert await there.tell("arrived") == 204
        assert await there.tell("arrived") == 204
        await until(lambda: site.count("inbox") == 0)
        async with there.client.get(shown[1]) as answer:
            text = await answer.text()
    assert 'sendledger_callbacks_total{answer="kept",channel="letter"} 2.0' in text
    assert 'sendledger_receipts_total{channel="letter",fate="folded"} 1.0' in text
