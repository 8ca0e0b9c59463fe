"""Plugins that are missing, raise, lie or block: named, contained, and nobody's delivery lost.

A worker process of its own each time, with real plugins found by their entry points, and a relay whose
journal says what was really handed over.
"""

from __future__ import annotations

import asyncio
import csv
import sys
from collections import Counter
from pathlib import Path

import pytest

from acceptance.rig import (
    DEADLINE_S,
    ENVIRONMENT,
    Ran,
    Site,
    drained,
    people,
    relay_of,
    terminate,
    until,
)
from plugins_for_tests import install
from sendledger_sandbox import CaptureServer, read_journal

TESTS = Path(__file__).parents[1]
HERE = "acceptance.bad_plugins"
FOUND = {
    "stumbling": f"{HERE}.stumbling_channel",
    "blocking-observer": f"{HERE}.blocking_observer",
    "blocking-policy": f"{HERE}.blocking_policy",
    "silent-policy": f"{HERE}.silent_policy",
    "raising-policy": f"{HERE}.raising_policy",
    "lying-policy": "plugins_for_tests.liar",
    "raising-rules": f"{HERE}.raising_rules",
    "lying-rules": f"{HERE}.lying_rules",
    "hopeful-rules": f"{HERE}.hopeful_rules",
    "raising-observer": "plugins_for_tests.raising_observer",
    "broken-import": f"{HERE}.broken_import",
    "raising-destination": f"{HERE}.raising_destination",
}


@pytest.fixture(autouse=True)
def installed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install all of them; only those that the settings name are loaded."""
    (site.folder / "plugins").mkdir()
    monkeypatch.syspath_prepend(str(site.folder / "plugins"))
    install(site.folder / "plugins", "acme-mistakes", **FOUND)


async def drain(site: Site) -> Ran:
    """Drain in a process that finds the plugins; it ends well, and shows no address."""
    ran = await asyncio.to_thread(site.ask, "work", "--drain", env=environment(site))
    assert ran.code == 0, ran.err
    assert "home.test" not in ran.all
    return ran


def environment(site: Site) -> dict[str, str]:
    return {"PYTHONPATH": f"{site.folder / 'plugins'}:{TESTS}"}


def use(site: Site, *plugins: str) -> None:
    site.settings["plugins"] = list(plugins)
    site.write()


def statuses(site: Site) -> Counter[str]:
    return Counter(row.status for row in site.rows())


def received(relay: CaptureServer) -> Counter[str]:
    return Counter(address for entry in read_journal(relay.journal) for address in entry.rcpt)


# --- missing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        ("absent", "which is not installed"),
        ("broken-import", "failed to load: RuntimeError"),
    ],
)
async def test_a_plugin_that_cannot_be_loaded_stops_the_start_and_costs_nobody_anything(
    site: Site, plugin: str, said: str
) -> None:
    async with relay_of(site) as relay:
        await site.planned(people(3))
        use(site, plugin)
        for command in (["work", "--drain"], ["check"], ["status"]):
            ran = await site.tell(*command)
            assert ran.code == 2
            assert f'"{plugin}"' in ran.err
            assert said in ran.err
            assert len(ran.err.splitlines()) == 1
        assert {(row.status, row.claims) for row in site.rows()} == {("planned", 0)}
        use(site)
        await drained(site)
        assert statuses(site) == {"submitted": 3}
        assert set(received(relay).values()) == {1}


# --- the channel ---------------------------------------------------------------------------------


async def test_a_channel_that_stumbles_leaves_only_those_it_stumbled_over_in_doubt(
    site: Site,
) -> None:
    """Whatever it raised or gave, nobody knows what left: no status is invented, nobody is sent to again."""
    site.settings["channels"]["email"]["plugin"] = "stumbling"
    async with relay_of(site) as relay:
        told = {"s1": "before@home.test", "s2": "after@home.test", "s3": "lie@home.test"}
        await site.planned(told | people_from(4))
        ran = await drain(site)
        assert {row.recipient_id: row.status for row in site.rows()} == {
            **dict.fromkeys(told, "ambiguous"),
            **dict.fromkeys(people_from(4), "submitted"),
        }
        assert received(relay) == Counter(
            ["after@home.test", "lie@home.test", *people_from(4).values()]
        )
        for fault in (
            "raised LookupError at stumbling_channel.py",
            "raised RuntimeError at stumbling_channel.py",
            "gave str; expected Evidence",
        ):
            assert fault in ran.err
        site.settings["channels"]["email"]["plugin"] = "smtp"
        site.write()
        await drained(site)
        assert {row.attempts for row in site.rows()} == {1}


def people_from(first: int) -> dict[str, str]:
    return {f"s{n}": f"parent{n}@home.test" for n in range(first, first + 5)}


async def test_a_destination_that_a_plugin_fails_over_is_a_rejected_row_that_says_so(
    site: Site,
) -> None:
    """The row is in the rejects file with the plugin's name and type of error; it can be planned again."""
    use(site, "raising-destination")
    site.write_recipients(people(3))
    arguments = (f"{site.folder}/batch.yaml", "-r", f"{site.folder}/recipients.csv")
    ran = await site.tell("plan", *arguments)
    assert ran.code == 1
    assert "rejected 3" in ran.out
    with (site.folder / "recipients.rejects.csv").open(encoding="utf-8", newline="") as file:
        rejects = list(csv.DictReader(file))
    assert [row["line"] for row in rejects] == ["2", "3", "4"]
    for row in rejects:
        assert 'sendledger_destination of "raising-destination" raised TypeError' in row["reason"]
        assert "home.test" not in str(row)
    assert site.count("intent") == 0


# --- policies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        ("raising-policy", "raised KeyError at raising_policy.py"),
        ("lying-policy", "gave 1 verdicts for 3 candidates"),
        ("silent-policy", "took longer than 5 s"),
        ("blocking-policy", "took longer than 5 s"),
    ],
)
async def test_a_failing_policy_lets_nothing_go_and_holds_everybody_until_it_is_mended(
    site: Site, plugin: str, said: str
) -> None:
    """A go that comes too late is none, also when it blocked the loop that would have timed it."""
    async with relay_of(site) as relay:
        await site.planned(people(3))
        use(site, plugin)
        ran = await drain(site)
        assert said in ran.err
        assert plugin in ran.err
        held = {(row.status, row.awaits, row.rule, row.cause) for row in site.rows()}
        assert held == {("planned", "release", "policy.failing", plugin)}
        assert site.count("attempt") == 0
        assert [(kind, cause) for kind, cause, _ in site.tasks()] == [("held", plugin)]
        use(site)
        resumed = await site.tell("resume", plugin)
        assert resumed.out == "resumed; 3 rows released\n"
        await drained(site)
        assert statuses(site) == {"submitted": 3}
        assert set(received(relay).values()) == {1}


# --- rules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        ("raising-rules", "raised ValueError at raising_rules.py"),
        ("lying-rules", "gave str; expected Classification or None"),
    ],
)
async def test_rules_that_fail_are_named_and_passed_over(
    site: Site, plugin: str, said: str
) -> None:
    """The next in line says what the evidence means: the configured rules and the channel's."""
    use(site, plugin)
    async with relay_of(site) as relay:
        await site.planned(people(3) | {"s9": "gone+rcpt-550-5.1.1@home.test"})
        ran = await drain(site)
        assert said in ran.err
        assert statuses(site) == {"submitted": 3, "failed": 1}
        assert site.row("s9").rule == "smtp.address-unknown"
        assert set(received(relay).values()) == {1}


async def test_rules_cannot_talk_a_refusal_or_silence_into_an_acceptance(site: Site) -> None:
    use(site, "hopeful-rules")
    async with relay_of(site):
        await site.planned(
            {
                "s1": "pat@home.test",
                "s2": "gone+rcpt-550-5.1.1@home.test",
                "s3": "lost+lose-answer@home.test",
            }
        )
        await drain(site)
        assert {row.recipient_id: row.status for row in site.rows()} == {
            "s1": "submitted",
            "s2": "failed",
            "s3": "ambiguous",
        }


# --- observers -----------------------------------------------------------------------------------


async def test_observers_that_raise_or_block_change_nothing_and_hold_up_nobody(
    site: Site,
) -> None:
    """Both are named, everybody is submitted, and the worker ends although one never comes back."""
    use(site, "raising-observer", "blocking-observer")
    log = site.folder / "log"
    async with relay_of(site) as relay:
        await site.planned(people(5))
        with log.open("w", encoding="utf-8") as file:
            worker = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "sendledger", "work"),
                cwd=site.folder,
                env=ENVIRONMENT | environment(site),
                stdout=file,
                stderr=file,
            )
        try:
            await until(lambda: statuses(site) == {"submitted": 5})
            await until(lambda: "raised RuntimeError at raising_observer.py" in log.read_text())
            await until(lambda: "took longer than 2 s" in log.read_text())
            terminate(worker)
            code = await asyncio.wait_for(worker.wait(), DEADLINE_S)
        finally:
            if worker.returncode is None:
                worker.kill()
                await worker.wait()
        assert code == 0
        assert "blocking-observer" in log.read_text()
        assert "home.test" not in log.read_text()
        assert set(received(relay).values()) == {1}
