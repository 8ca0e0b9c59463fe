"""Settings and private files at fault: told with path, line and remedy, and no command goes on with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from acceptance.refusing import CANARY, assert_refused, told
from acceptance.rig import Site

Damage = Callable[[Site], None]


def test_without_settings_nothing_is_made_up(tmp_path: Path) -> None:
    ran = Site(folder=tmp_path, dsn="").ask("work", "--drain")
    assert_refused(
        ran,
        "no settings: there is no sendledger.yaml here and SENDLEDGER_CONFIG is not set;"
        " name a file with --config",
    )
    assert list(tmp_path.iterdir()) == []


def unknown_key(site: Site) -> None:
    site.settings["channels"]["email"]["slts"] = "4"


def wrong_type(site: Site) -> None:
    site.settings["channels"]["email"]["slots"] = "many"


def missing_plugin(site: Site) -> None:
    site.settings["channels"]["email"]["plugin"] = "carrier-pigeon"


def clear_text_to_another_host(site: Site) -> None:
    site.relay["host"] = "relay.example"


def password_in_clear(site: Site) -> None:
    site.relay.update(username="reports", password=CANARY)


def unset_variable(site: Site) -> None:
    site.relay.update(username="reports", password={"$env": "SENDLEDGER_NO_SUCH_VARIABLE"})


def no_database(site: Site) -> None:
    del site.settings["database"]


def no_policy_file(site: Site) -> None:
    site.settings["policy"] = "missing.yaml"


def wrong_policy(site: Site) -> None:
    site.policy["retry"]["delays"] = ["soon"]


def wrong_rule(site: Site) -> None:
    site.policy["classification"] = {"smtp": [{"id": "site.odd", "outcome": "perhaps"}]}


SETTINGS_FAULTS: list[tuple[Damage, str]] = [
    (
        unknown_key,
        "sendledger.yaml: channels.email.slts (line 16): unknown key; did you mean slots?",
    ),
    (
        wrong_type,
        (
            "sendledger.yaml: channels.email.slots (line 9): expected a whole number of at least 1"
            " and at most 10000"
        ),
    ),
    (
        missing_plugin,
        (
            'channel "email" needs the plugin "carrier-pigeon", which is not installed'
            " (installed: policy, smtp, twilio); install its distribution or correct the name"
        ),
    ),
    (
        clear_text_to_another_host,
        (
            "sendledger.yaml: channels.email.settings (line 10): tls: none is for loopback hosts only;"
            " write starttls or implicit"
        ),
    ),
    (
        password_in_clear,
        (
            "sendledger.yaml: channels.email.settings.password (line 17): secrets are given as"
            " {$env: NAME} or {$file: path}, not written here"
        ),
    ),
    (
        unset_variable,
        (
            "sendledger.yaml: channels.email.settings.password (line 17): environment variable"
            " SENDLEDGER_NO_SUCH_VARIABLE is not set; set it, or use {$file: path}"
        ),
    ),
    (
        no_database,
        (
            "sendledger.yaml: database (line 1): is required: the word embedded,"
            " {embedded: {port: N}}, or {dsn: {$env: NAME}}"
        ),
    ),
    (
        no_policy_file,
        "sendledger.yaml: policy (line 5): there is no such file; name an existing one",
    ),
    (
        wrong_policy,
        "policy.yaml: retry.delays.0 (line 4): expected a duration such as 30s, 8m, 1h30m or 2d",
    ),
    (
        wrong_rule,
        (
            "policy.yaml: classification.smtp.0 (line 16): rule ***: outcome: got '***';"
            " write one of accepted, transient, permanent, ambiguous, delivered"
        ),
    ),
]


@pytest.mark.parametrize(("damage", "sentence"), SETTINGS_FAULTS)
def test_a_fault_of_the_settings_is_named_with_its_path_line_and_remedy(
    site: Site, damage: Damage, sentence: str
) -> None:
    damage(site)
    site.write()
    assert_refused(told(site, "check"), sentence)


def test_every_fault_of_a_file_is_told_at_once(site: Site) -> None:
    unknown_key(site)
    wrong_type(site)
    site.settings["stat_dir"] = "state"
    site.write()
    ran = site.called("check")
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 3


@pytest.mark.parametrize("command", ["check", "status", "work", "rebuild", "plan", "explain"])
def test_no_command_goes_on_with_settings_it_does_not_understand(site: Site, command: str) -> None:
    batch = [f"{site.folder}/batch.yaml", "-r", f"{site.folder}/recipients.csv"]
    more = {"plan": batch, "explain": ["abcd"]}
    site.write_recipients({"s1": "pat@home.test"})
    site.write()
    with site.config.open("a") as file:
        file.write("chanels: {}\n")
    ran = told(site, command, *more.get(command, []))
    assert_refused(ran, "sendledger.yaml: chanels (line 21): unknown key; did you mean channels?")
    assert site.count("batch") == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it is empty; begin with a copy of an example"),
        ("- embedded\n", "line 1: expected keys with values, such as 'database: embedded'"),
        (
            "database: [\n",
            "line 2: not valid YAML (while parsing a flow node); check indentation, colons and quotes",
        ),
        (
            "database: embedded\ndatabase: embedded\n",
            "database (line 2): given twice, first on line 1; keep one of them",
        ),
    ],
)
def test_a_file_that_holds_no_settings_is_named_with_the_line(
    site: Site, text: str, sentence: str
) -> None:
    site.config.write_text(text)
    assert_refused(told(site, "check"), f"sendledger.yaml: {sentence}")


def test_a_settings_file_that_cannot_be_read_is_named(site: Site) -> None:
    site.config.unlink()
    site.config.mkdir()
    ran = told(site, "check")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("sendledger: sendledger.yaml: ")
    assert "Traceback" not in ran.err


# --- files that must be private ------------------------------------------------------------------


def test_a_key_file_that_others_can_read_is_refused(site: Site) -> None:
    (site.folder / "state/keys.json").chmod(0o640)
    ran = site.ask("status")
    assert_refused(
        ran,
        "state/keys.json: other users can read or change the keys (mode 0640);"
        " run chmod 600 state/keys.json",
    )


def test_a_damaged_key_file_is_refused_and_not_replaced(site: Site) -> None:
    keys = site.folder / "state/keys.json"
    keys.write_text('{"format": 1, "identity": "' + CANARY)
    ran = told(site, "status")
    assert_refused(
        ran, "state/keys.json: is not a key ring of format 1; restore it from its backup"
    )
    assert CANARY in keys.read_text()


def test_a_secret_that_others_can_read_is_refused(site: Site) -> None:
    (site.folder / "dsn").chmod(0o644)
    assert_refused(
        told(site, "status"),
        "sendledger.yaml: database.dsn (line 2): the secret's file can be used by other users;"
        " run chmod 600 on it",
    )
