"""Limits of a channel over several worker processes: kept together, and without asking in vain."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from acceptance.crew import all_submitted, at_work, count_open, crew, hold_to_account
from acceptance.rig import Site, people, relay_of, until, write_private
from acceptance.statement_proxy import Side, StatementProxy
from sendledger.ledger.limits import burst
from sendledger_sandbox import ConnectionInfo, Phase, read_journal

SLOTS = 4
UPDATES_MAX = 15
"""How often a row may be touched on average where three times would do without limits."""


@dataclass(slots=True)
class Crowd:
    """Counts at the relay which messages are being handed over, by domain; keeps the peaks."""

    now: dict[int, str] = field(default_factory=dict)
    peak: int = 0
    domain_peak: int = 0

    def __call__(self, phase: Phase, _count: int, info: ConnectionInfo) -> None:
        """Count a message from its text until it is answered."""
        if phase is Phase.DATA:
            self.now[info.number] = info.rcpt[0].partition("@")[2]
            self.peak = max(self.peak, len(self.now))
            self.domain_peak = max(self.domain_peak, *Counter(self.now.values()).values())
        if phase is Phase.ACCEPTED:
            self.now.pop(info.number, None)


def of_domains(count: int, *domains: str) -> dict[str, str]:
    """Return recipients spread over *domains*."""
    return {f"s{n}": f"parent{n}@{domains[n % len(domains)]}.test" for n in range(count)}


def notes(seen: list[int], found: int) -> bool:
    """Keep what was found."""
    seen.append(found)
    return True


async def test_workers_together_have_no_more_in_flight_than_the_channel_may(site: Site) -> None:
    site.settings["channels"]["email"]["limits"] = {"in_flight": "5"}
    crowd = Crowd()
    async with relay_of(site, script=["stall-0.03"], observer=crowd) as relay:
        await site.planned(people(200))
        async with crew(site):
            await at_work(site)
            seen: list[int] = []
            await until(lambda: notes(seen, count_open(site)) and all_submitted(site))
        assert max(seen) <= 5
        assert 1 < crowd.peak <= 5
        hold_to_account(site, relay, people(200))
    assert updates_per_row(site, 200) <= UPDATES_MAX


async def test_workers_together_have_no_more_in_flight_to_a_domain_than_it_may_get(
    site: Site,
) -> None:
    """And they do not ask in vain all the time: how often rows are touched is bounded."""
    site.settings["channels"]["email"]["limits"] = {"domain_in_flight": "2"}
    planned = of_domains(150, "big", "big", "big", "small")
    crowd = Crowd()
    async with relay_of(site, script=["stall-0.05"], observer=crowd) as relay:
        await site.planned(planned)
        async with crew(site):
            await until(lambda: all_submitted(site), within_s=60)
        assert crowd.domain_peak <= 2 < crowd.peak
        hold_to_account(site, relay, planned)
    assert updates_per_row(site, len(planned)) <= UPDATES_MAX


def updates_per_row(site: Site, rows: int) -> float:
    site.select("SELECT pg_stat_force_next_flush()")
    [(updates,)] = site.select(
        "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'delivery'"
    )
    return int(updates) / rows


async def test_workers_share_the_rate_of_a_channel(site: Site) -> None:
    """A row takes its turn when it is claimed; what still waits for a slot may follow it more closely."""
    site.settings["channels"]["email"]["limits"] = {"per_second": "40"}
    async with relay_of(site) as relay:
        await site.planned(people(120))
        async with crew(site):
            await until(lambda: all_submitted(site))
        assert busiest_second(site) <= 40 * 1.2 + 1 + 2 * (burst(40) + SLOTS)
        hold_to_account(site, relay, people(120))


def busiest_second(site: Site) -> int:
    [(found,)] = site.select(
        "SELECT max((SELECT count(*) FROM sendledger.attempt AS b WHERE b.opened_at >= a.opened_at"
        " AND b.opened_at < a.opened_at + interval '1 second')) FROM sendledger.attempt AS a"
    )
    return int(found)


async def test_rows_of_a_domain_with_a_rate_all_go_and_hold_up_no_other(site: Site) -> None:
    site.settings["channels"]["email"]["limits"] = {"domain_per_second": "20"}
    planned = of_domains(60, "big") | {f"o{n}": f"o{n}@small{n}.test" for n in range(20)}
    async with relay_of(site) as relay:
        await site.planned(planned)
        async with crew(site):
            await until(lambda: all_submitted(site))
        hold_to_account(site, relay, planned)
        last = [entry.rcpt[0].partition("@")[2] for entry in read_journal(relay.journal)][-20:]
        assert set(last) == {"big.test"}
    assert updates_per_row(site, len(planned)) <= UPDATES_MAX


# --- not too busy ------------------------------------------------------------------------------


@dataclass(slots=True)
class Ticks:
    """Counts the statements of a worker."""

    seen: Counter[str] = field(default_factory=Counter)

    def __call__(self, name: str, side: Side) -> bool:
        """Count a statement once, and let it pass."""
        self.seen[name] += side is Side.BEFORE
        return False


async def test_an_idle_worker_asks_for_turns_as_often_as_it_polls_however_short_they_are(
    site: Site,
) -> None:
    """It polls two and a half times as often as it sweeps, so twice as many rounds again are too many."""
    site.settings["channels"]["email"]["limits"] = {"per_second": "1000"}
    ticks = Ticks()
    async with relay_of(site), StatementProxy(site.dsn, watch=ticks) as proxy:
        write_private(site.folder / "dsn", proxy.dsn)
        async with crew(site, 1):
            await until(lambda: ticks.seen["find_orphaned"] >= 8)
            rounds = ticks.seen["take_turns"]
    assert 1 < rounds <= 8 * 5 + 5
