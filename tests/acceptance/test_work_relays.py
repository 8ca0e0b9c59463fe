"""Several relays for one channel: an outage of one is nobody's, and nobody is submitted to at two of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from acceptance.ledger_checker import violations
from acceptance.rig import Site, drained, people, relay_of, until, working, write_private
from sendledger_sandbox import CaptureServer, Credentials, read_journal

SLOTS = 4


@asynccontextmanager
async def fallback_of(site: Site) -> AsyncIterator[CaptureServer]:
    """Lend a second relay, which the settings name as the one to fall back on."""
    async with CaptureServer(journal=site.folder / "fallback.jsonl") as relay:
        named = {"host": relay.host, "port": str(relay.port), "tls": "none"}
        site.relay["fallbacks"] = [named]
        site.write()
        yield relay
    assert relay.unexpected == []


def both(site: Site, *relays: CaptureServer) -> Path:
    """Return a journal of what all *relays* accepted."""
    merged = site.folder / "both.jsonl"
    merged.write_text("".join(relay.journal.read_text("utf-8") for relay in relays), "utf-8")
    return merged


async def test_a_relay_that_dies_under_load_leaves_the_rest_to_the_next_and_nobody_twice(
    site: Site,
) -> None:
    planned = people(120)
    async with relay_of(site, script=["stall-0.01"]) as first, fallback_of(site) as second:
        await site.planned(planned)
        async with working(site):
            await until(lambda: first.accepted >= 40)
            await first.close()
            await until(
                lambda: all(row.status in {"submitted", "ambiguous"} for row in site.rows())
            )
        unknown = [row for row in site.rows() if row.status == "ambiguous"]
        assert len(unknown) <= SLOTS
        assert first.accepted + second.accepted >= len(planned) - len(unknown)
        assert violations(site.dsn, both(site, first, second), planned.keys()) == []
        names = dict(site.select("SELECT stage, count(*) FROM sendledger.observation GROUP BY 1"))
        assert names[f"dot/127.0.0.1:{second.port}"] == second.accepted
        taken = read_journal(second.journal)[0].rcpt[0].partition("@")[0].removeprefix("parent")
        told = await site.tell("explain", site.row(f"s{taken}").key)
        assert f"at dot, 127.0.0.1:{second.port}" in told.out


async def test_a_wrong_password_at_one_relay_stops_nobody_and_is_shown_to_it_once(
    site: Site,
) -> None:
    write_private(site.folder / "password", "not this one")
    site.relay.update(username="school", password={"$file": "password"})
    account = Credentials(user="school", password="hunter2")
    async with relay_of(site, credentials=account) as first, fallback_of(site) as second:
        await site.planned(people(20))
        await drained(site)
        assert (first.auth_tries, first.accepted, second.accepted) == (1, 0, 20)
    assert {(row.status, row.attempts) for row in site.rows()} == {("submitted", 1)}
    assert not site.paused()
    assert not site.tasks()


async def test_the_channel_backs_off_only_when_every_relay_is_away(site: Site) -> None:
    async with relay_of(site) as first, fallback_of(site) as second:
        await first.close()
        await second.close()
        await site.planned(people(8))
        async with working(site):
            await until(lambda: site.count("back_off") == 1)
            assert site.count("attempt") == 0
            await second.reopen()
            await until(lambda: all(row.status == "submitted" for row in site.rows()))
        assert second.accepted == 8
        assert {row.attempts for row in site.rows()} == {1}
        assert site.count("back_off") == 0
