"""Every bad input of the command: exit code 2, one sentence with place and remedy, and nothing half done."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from acceptance.rig import Ran, Site, write_keys, write_private
from sendledger.postgres import Embedded
from sendledger.postgres.cluster import PROMISES

Damage = Callable[[Site], None]

OTHER_INSTALLATION = UUID("5e4d1ed6-0000-4000-8000-000000000002")
CANARY = "c4n4ry-passw0rd"


def assert_refused(ran: Ran, sentence: str) -> None:
    """Check that this one sentence is all that is said."""
    assert (ran.code, ran.out, ran.err) == (2, "", f"sendledger: {sentence}\n")


def told(site: Site, *arguments: str) -> Ran:
    """Run a command in this process; paths are shown as from the installation's folder."""
    ran = site.called(*arguments)
    return Ran(code=ran.code, out=ran.out, err=ran.err.replace(f"{site.folder}/", ""))


# --- settings ------------------------------------------------------------------------------------


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
            " (installed: policy, smtp); install its distribution or correct the name"
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
    (no_database, "sendledger.yaml: database (line 1): is required"),
    (no_policy_file, "missing.yaml: there is no such file; name an existing one"),
    (
        wrong_policy,
        "policy.yaml: retry.delays.0 (line 4): expected a duration such as 30s, 8m, 1h30m or 2d",
    ),
    (
        wrong_rule,
        (
            "policy.yaml: classification.smtp (line 15): classification: rule ***: outcome: got '***';"
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
        ("", "it is empty; see config/example.yaml for a start"),
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


# --- databases -----------------------------------------------------------------------------------


def with_path(dsn: str, name: str) -> str:
    return urlsplit(dsn)._replace(path=f"/{name}").geturl()


def with_password(dsn: str) -> str:
    parts = urlsplit(dsn)
    return parts._replace(
        netloc=f"{parts.username}:{CANARY}@{parts.hostname}:{parts.port}"
    ).geturl()


REACH = "the database cannot be reached ({}): see that it runs, and where the DSN points"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda _: f"postgresql://someone:{CANARY}@127.0.0.1:1/ledger",
            REACH.format("connection refused"),
        ),
        (lambda dsn: with_path(dsn, "no_such_ledger"), REACH.format("no such database or role")),
        (with_password, REACH.format("password authentication failed")),
        (
            lambda _: f"ledger {CANARY}",
            (
                "the DSN cannot be read: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE,"
                " with special characters percent-encoded"
            ),
        ),
    ],
)
def test_a_database_that_is_not_there_is_told_in_a_sentence_without_its_dsn(
    site: Site, change: Callable[[str], str], sentence: str
) -> None:
    write_private(site.folder / "dsn", change(site.dsn))
    for command in (["status"], ["work", "--drain"], ["db", "migrate"]):
        assert_refused(site.called(*command), sentence)


def test_a_copy_of_a_ledger_under_other_keys_sends_nothing(site: Site) -> None:
    site.plan({"s1": "pat@home.test"})
    write_keys(site.folder / "state/keys.json", OTHER_INSTALLATION)
    sentence = (
        "this database belongs to another installation: nothing is sent from a copy;"
        " use the key file that was made with it"
    )
    assert_refused(site.ask("work", "--drain"), sentence)
    assert_refused(site.called("status"), sentence)
    assert site.row("s1").attempts == 0
    assert not site.row("s1").claimed


def test_a_copy_of_a_ledger_without_any_keys_sends_nothing(site: Site) -> None:
    site.plan({"s1": "pat@home.test"})
    shutil.rmtree(site.folder / "state")
    ran = site.ask("work", "--drain")
    assert (ran.code, ran.out) == (2, "")
    assert "belongs to another installation" in ran.err
    assert site.row("s1").attempts == 0


def test_a_ledger_that_a_newer_version_has_migrated_is_left_alone(site: Site) -> None:
    site.plan({"s1": "pat@home.test"})
    site.select("UPDATE public.sendledger_schema_version SET version_num = '9001'")
    for command in (["work", "--drain"], ["status"], ["db", "migrate"]):
        ran = site.called(*command)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("sendledger: the database is at schema 9001, newer than the ")
        assert ran.err.endswith(
            " this version knows: install the version that migrated it, or a later one\n"
        )
    assert site.row("s1").attempts == 0


def test_a_database_without_the_schema_is_not_filled_in_passing(site: Site) -> None:
    name = f"{urlsplit(site.dsn).path[1:]}_empty"
    with psycopg.connect(site.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        write_private(site.folder / "dsn", with_path(site.dsn, name))
        ran = site.called("status")
        assert (ran.code, ran.out) == (2, "")
        assert "the database is at schema none" in ran.err
        assert ran.err.endswith("run `sendledger db migrate`\n")
        migrated = site.called("db", "migrate")
        assert migrated.out.startswith("schema none -> ")
        assert site.called("status").out == "nothing is planned yet\n"
    finally:
        with psycopg.connect(site.dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            "default_transaction_read_only = on",
            "the database is a standby or read-only: point the settings at the primary",
        ),
        (
            "synchronous_commit = off",
            "synchronous_commit is off: a crash would forget attempts; turn it on (or remote_write)",
        ),
    ],
)
def test_a_database_that_could_not_keep_its_promises_is_refused(
    site: Site, setting: str, sentence: str
) -> None:
    site.plan({"s1": "pat@home.test"})
    name, value = setting.split(" = ")
    site.select(f"ALTER DATABASE {urlsplit(site.dsn).path[1:]} SET {name} TO '{value}'")
    assert_refused(site.ask("work", "--drain"), sentence)
    assert site.row("s1").attempts == 0


@pytest.fixture
def forgetful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Lend the URL of a server that runs without fsync."""
    monkeypatch.setitem(PROMISES, "fsync", "off")
    server = Embedded(tmp_path / "forgetful", wait_max_s=60)
    yield server.ensure()
    server.stop()


def test_a_server_without_fsync_is_refused(site: Site, forgetful: str) -> None:
    write_private(site.folder / "dsn", forgetful)
    assert site.called("db", "migrate").code == 0
    assert_refused(
        site.ask("work", "--drain"),
        "fsync is off: a crash would forget attempts; turn fsync on",
    )


def test_a_port_that_is_taken_is_named_and_no_server_is_left_behind(tmp_path: Path) -> None:
    site = Site(folder=tmp_path, dsn="")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        site.settings["database"] = {"embedded": {"port": str(port)}}
        site.write()
        ran = site.ask("status")
    assert_refused(
        ran,
        f"127.0.0.1:{port}: the port fixed for the embedded database cannot be used (Address already"
        " in use); stop the program that listens there, fix another port, or fix none",
    )
    assert not Embedded(tmp_path / "state").status().running


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["explain", "abc"], "an intent key is 4 to 32 hexadecimal digits, such as 3f2a90c1"),
        (["explain", "nothex"], "an intent key is 4 to 32 hexadecimal digits, such as 3f2a90c1"),
        (["explain", "0000"], "no intent key begins with 0000"),
        (["status", "autumn"], "no such batch; `sendledger status` lists them all"),
        (
            ["pause", "everything"],
            "no such scope; write all, or one of channel:, batch:, purpose:, sender: with a name",
        ),
        (
            ["resume", "channel:email"],
            "nothing is paused or held under that name; see sendledger status",
        ),
        (
            ["work", "--drain", "--within", "soon"],
            "--within: expected a duration such as 30s, 8m, 1h30m or 2d",
        ),
        (
            ["work", "--log-level", "loud"],
            "there is no log level of this name; use one of debug, info, warning, error, critical",
        ),
        (
            ["db", "start"],
            "the settings name a DSN: that server is not ours to start or stop; use its own tools",
        ),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused(
    site: Site, arguments: list[str], sentence: str
) -> None:
    assert_refused(site.called(*arguments), sentence)


def test_an_unknown_command_or_option_shows_the_usage(site: Site) -> None:
    for arguments in (["dispatch"], ["work", "--fast"]):
        ran = site.ask(*arguments)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("Usage: ")
        assert "Traceback" not in ran.err


def test_the_command_is_on_the_path_of_the_environment_it_was_installed_into() -> None:
    assert os.access(Path(sys.executable).with_name("sendledger"), os.X_OK)


# --- planning: a smoke of each kind; the rest is told by the tests of planning -------------------


def raw_tags(site: Site) -> None:
    site.batch["content"]["text"] = "Dear {{{name}}}"


def column_that_is_not_there(site: Site) -> None:
    site.batch["variables"] = {"name": "first_name"}


def nobody(site: Site) -> None:
    site.write_recipients({})


def unknown_channel(site: Site) -> None:
    site.batch["channel"] = "sms"


def no_authority(site: Site) -> None:
    del site.batch["authorization"]


def past(site: Site) -> None:
    site.batch["not_after"] = "2001-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (raw_tags, "batch.yaml: content.text (line "),
        (column_that_is_not_there, "recipients.csv line 1: "),
        (nobody, "recipients.csv: "),
        (unknown_channel, "batch.yaml: channel (line "),
        (no_authority, "batch.yaml: authorization (line "),
        (past, "batch.yaml: not_after (line "),
    ],
)
def test_a_batch_at_fault_is_refused_whole_with_its_place(
    site: Site, damage: Damage, place: str
) -> None:
    site.write_recipients({"s1": "pat@home.test"})
    damage(site)
    site.write()
    ran = told(site, "plan", f"{site.folder}/batch.yaml", "-r", f"{site.folder}/recipients.csv")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"sendledger: {place}")
    assert len(ran.err.splitlines()) == 1
    assert [site.count(table) for table in ("batch", "intent", "delivery", "content")] == [0] * 4
