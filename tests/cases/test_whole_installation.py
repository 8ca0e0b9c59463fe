"""What the cases about settings, destinations, injection and plugins expect of a whole installation."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

from acceptance.rig import Site, drained, found_site, relay_of
from plugins_for_tests import first_observer, install, second_observer
from sendledger_sandbox import read_journal
from smtp_kit import AT_DOT, BYE, INPUTS
from smtp_peer import ScriptedPeer

CASES = {case["id"]: case for case in yaml.safe_load((INPUTS / "cases.yaml").read_text())["cases"]}
GOOD = {f"good{n}": f"good{n}@home.test" for n in range(3)}


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = CASES[name]["expected"]
    return found


@pytest.fixture
def site(tmp_path: Path, database: str, installation_id: UUID) -> Site:
    """Return an installation with a database and keys, and nothing planned."""
    return found_site(tmp_path, database, installation_id)


async def plan_some(site: Site, people: dict[str, str]) -> list[dict[str, str]]:
    """Plan *people* of whom some are refused, beside three of whom nobody is; return the rejects."""
    site.write()
    site.write_recipients(GOOD | people)
    arguments = ["plan", f"{site.folder}/batch.yaml", "-r", f"{site.folder}/recipients.csv"]
    ran = await site.tell(*arguments, "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["rejected"] == len(people)
    with (site.folder / "recipients.rejects.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# --- destinations --------------------------------------------------------------------------------


async def test_eml_01_the_envelope_carries_the_address_as_it_was_given(site: Site) -> None:
    wanted = expected("eml-01")
    others = wanted["different_from"]
    async with relay_of(site) as relay:
        people = {"one": CASES["eml-01"]["input_inline"], "same": wanted["same_destination_as"][0]}
        # The relay would read the part behind a plus sign as a script, so it is only planned.
        await site.planned(people | {f"other{n}": other for n, other in enumerate(others)})
        stored = dict(
            site.select("SELECT recipient_id, destination FROM sendledger.recipient_secret")
        )
        assert stored["one"] == stored["same"] == wanted["envelope_rcpt"]
        fingerprints = dict(
            site.select(
                "SELECT recipient_id, destination_fingerprint FROM sendledger.intent"
                " JOIN sendledger.recipient_secret USING (intent_id)"
            )
        )
        assert fingerprints["one"] == fingerprints["same"]
        assert len(set(fingerprints.values())) == 1 + len(others)
        assert wanted["accepted"]
        assert relay.accepted == 0


async def test_eml_02_is_a_visible_failure_of_those_recipients_and_the_others_go_on(
    site: Site,
) -> None:
    wanted = expected("eml-02")
    assert not wanted["accepted"]
    bad = {f"bad{n}": text for n, text in enumerate(wanted["applies_to"])}
    async with relay_of(site) as relay:
        rejects = await plan_some(site, bad)
        assert [row["column"] for row in rejects] == ["email"] * len(bad)
        assert {row["reason"] for row in rejects} == {wanted["reason"]}
        await drained(site)
        assert relay.accepted == len(GOOD)
    reached = {entry.rcpt[0] for entry in read_journal(relay.journal)}
    assert len(reached & set(bad.values())) == wanted["submissions"]


async def test_eml_03_nothing_is_ever_sent_to_the_domain_inside_of_the_quotes(site: Site) -> None:
    async with relay_of(site) as relay:
        await plan_some(site, {"odd": CASES["eml-03"]["input_inline"]})
        await drained(site)
    reached = {entry.rcpt[0].rpartition("@")[2] for entry in read_journal(relay.journal)}
    assert reached == {"home.test"}
    assert expected("eml-03")["never_rcpt_domain"] not in reached


@pytest.mark.parametrize("name", ["eml-04", "eml-05"])
async def test_an_international_address_is_one_destination_and_needs_smtputf8_or_does_not(
    site: Site, name: str
) -> None:
    """The peer does not offer SMTPUTF8: what needs it is refused before a byte of it leaves."""
    spellings = CASES[name]["input_inline"]
    script = [*AT_DOT, {"send": "250 2.0.0 Ok\r\n"}, *BYE]
    site.settings["channels"]["email"]["slots"] = "1"
    site.relay["messages_per_session_max"] = "1"
    async with ScriptedPeer(scripts=[script] * len(spellings)) as peer:
        site.relay["port"] = str(peer.port)
        await site.planned({f"s{n}": text for n, text in enumerate(spellings)})
        await drained(site)
        [(distinct,)] = site.select(
            "SELECT count(DISTINCT destination_fingerprint) FROM sendledger.intent"
        )
        assert distinct == 1
        assert expected(name)["accepted"]
        standing = {(row.status, row.rule) for row in site.rows()}
        if expected(name)["smtputf8_required"]:
            assert standing == {("failed", "smtp.smtputf8-missing")}
            assert peer.messages == []
        else:
            assert standing == {("submitted", "default.2yz")}
            sent = [line for log in peer.log for who, line in log if who == "C"]
            rcpt = b"RCPT TO:<%b>\r\n" % expected(name)["envelope_rcpt"].encode()
            assert sent.count(rcpt) == len(spellings)


async def test_eml_05_goes_out_where_smtputf8_is_offered(site: Site) -> None:
    async with relay_of(site) as relay:
        await site.planned({"jose": CASES["eml-05"]["input_inline"][1]})
        await drained(site)
    [entry] = read_journal(relay.journal)
    assert entry.rcpt[0].partition("@")[0] == expected("eml-05")["canonical_local"]


# --- injection -----------------------------------------------------------------------------------


async def test_inj_01_a_line_break_is_refused_whenever_it_is_met_and_reaches_no_header(
    site: Site,
) -> None:
    inline, wanted = CASES["inj-01"]["input_inline"], expected("inj-01")
    site.batch["content"]["subject"] = inline["subject_template"]
    async with relay_of(site) as relay:
        site.write()
        everyone = GOOD | {"ann": "ann@home.test"}
        site.write_recipients(everyone, {"ann": inline["name"]})
        ran = await site.tell(
            "plan", f"{site.folder}/batch.yaml", "-r", f"{site.folder}/recipients.csv"
        )
        assert ran.code == 1
        assert ran.out.startswith(f"planned {len(GOOD)},")
        await site.planned(everyone)
        # As if it had been planned by something that does not look.
        site.select(
            "UPDATE sendledger.recipient_secret SET variables = %s WHERE recipient_id = 'ann'",
            json.dumps({"name": inline["name"]}),
        )
        await drained(site)
        ann = site.row("ann")
        assert (ann.status, ann.attempts) == (wanted["projection"], wanted["submissions"])
        assert ann.rule == "content." + wanted["reason"].replace("_", "-")
        # Permanent, and about the message: nothing follows, and nobody else is touched.
        assert (wanted["class"], wanted["scope"]) == ("permanent", "message")
        assert ann.awaits is None
        assert site.paused() == []
        assert site.count("suppression") == 0
        assert relay.accepted == len(GOOD)
    for kept in (site.folder / "kept").iterdir():
        assert kept.read_bytes().count(b"Bcc") == wanted["wire_headers_contain"]["Bcc"]


@pytest.mark.parametrize("source", CASES["inj-03"]["expected"]["applies_to"])
async def test_inj_03_a_batch_with_an_unescaped_placeholder_is_refused_whole(
    site: Site, source: str
) -> None:
    assert expected("inj-03")["template_registration"] == "refused"
    site.batch["content"]["text"] = source
    site.write()
    site.write_recipients(GOOD)
    ran = await site.tell(
        "plan", f"{site.folder}/batch.yaml", "-r", f"{site.folder}/recipients.csv"
    )
    assert ran.code == 2
    assert "without escaping" in ran.err
    assert site.count("batch") == site.count("content") == site.count("intent") == 0


# --- settings ------------------------------------------------------------------------------------


def test_cfg_01_the_command_ends_with_path_and_both_lines(tmp_path: Path) -> None:
    wanted = expected("cfg-01")
    ran = Site(folder=tmp_path, dsn="").ask("check", "-c", str(INPUTS / CASES["cfg-01"]["input"]))
    assert (ran.code != 0) == wanted["exit_code_nonzero"]
    first, second = wanted["line"]
    assert ran.err.endswith(
        f"{wanted['path']} (line {second}): given twice, first on line {first}; keep one of them\n"
    )


def test_cfg_05_the_command_ends_with_path_line_and_reason(tmp_path: Path) -> None:
    wanted = expected("cfg-05")
    site = Site(folder=tmp_path, dsn="")
    site.relay.update(username="mailer", password={"$env": "SMTP_PASSWORD"})
    site.write()
    ran = site.ask("check")
    assert (ran.code != 0) == wanted["exit_code_nonzero"]
    where, name = wanted["path"].rpartition(".")[::2]
    assert f"{where}.settings.{name} (line " in ran.err
    assert wanted["reason"] in ran.err


# --- plugins -------------------------------------------------------------------------------------


async def test_plg_02_an_observer_that_raises_changes_no_outcome(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    names = {"a": "first_observer", "b": "raising_observer", "c": "second_observer"}
    modules = {name: f"plugins_for_tests.{module}" for name, module in names.items()}
    install(tmp_path, "observers", **modules)
    first_observer.heard.clear()
    second_observer.heard.clear()
    site.settings["plugins"] = ["policy", *names]
    async with relay_of(site) as relay:
        await site.planned(GOOD)
        await drained(site)
        assert relay.accepted == len(GOOD)
    assert not expected("plg-02")["delivery_outcome_changed"]
    assert {row.status for row in site.rows()} == {"submitted"}
    assert first_observer.heard == second_observer.heard
    assert {told.intent_key for told in first_observer.heard} == {row.key for row in site.rows()}
    assert {(told.outcome, told.status) for told in first_observer.heard} == {
        ("accepted", "submitted")
    }


def test_plg_03_the_command_stops_with_the_name_and_the_cause(site: Site, tmp_path: Path) -> None:
    (tmp_path / "broken_pkg.py").write_text("raise ImportError('no libfoo')\n")
    install(tmp_path, "broken-pkg", "0.9", telegraph="broken_pkg")
    site.settings["channels"]["sms"] = {"plugin": "telegraph", "settings": {}}
    site.write()
    ran = site.ask("work", "--drain", env={"PYTHONPATH": str(tmp_path)})
    assert not expected("plg-03")["silent_skip"]
    told = expected("plg-03")["startup"].removeprefix("error: ").partition("<")[0]
    assert ran.code == 2
    words = ran.err.removeprefix("sendledger: ").replace("the plugin", "plugin").replace(",", "")
    assert words.startswith(told.replace("twilio", "telegraph"))  # which is ours by now
    assert "no libfoo" in ran.err
