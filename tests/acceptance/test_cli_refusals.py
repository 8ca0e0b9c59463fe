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

from acceptance.refusing import CANARY, assert_refused, told
from acceptance.rig import Site, write_keys, write_private
from sendledger.postgres import Embedded
from sendledger.postgres.cluster import PROMISES

Damage = Callable[[Site], None]

OTHER_INSTALLATION = UUID("5e4d1ed6-0000-4000-8000-000000000002")


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


def test_a_text_that_the_locale_cannot_read_is_told_in_a_sentence(site: Site) -> None:
    site.write()
    ran = site.called("pause", "purpose:fr\udcfch")
    assert ran.code == 2
    assert ran.err.startswith(
        "sendledger: a text on the command line cannot be read in this locale"
    )
    assert len(ran.err.splitlines()) == 1


def test_an_error_of_the_database_is_told_without_its_text(site: Site) -> None:
    """PostgreSQL quotes the row that it refuses."""
    site.write()
    site.select(
        "ALTER TABLE sendledger.pause ADD CONSTRAINT planted CHECK (scope_key <> 'purpose:canary')"
    )
    ran = site.called("pause", "purpose:canary")
    assert (ran.code, ran.out) == (70, "")
    assert ran.err.startswith(
        "sendledger: the database refuses a statement (CheckViolation[23514] at sendledger."
    )
    assert "canary" not in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("command", ["work", "serve"])
def test_without_a_channel_nobody_pretends_to_work(site: Site, command: str) -> None:
    site.settings["channels"] = {}
    site.write()
    assert_refused(
        site.called(command),
        "no channel is configured, so there is nothing to work; add one to channels",
    )


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

NO_SCOPE = (
    "this names no scope; write all, channel:NAME, batch:REPORT/REVISION/CHANNEL, purpose:NAME or"
    " sender:CHANNEL/ADDRESS"
)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["explain", "abc"], "an intent key is 4 to 32 hexadecimal digits, such as 3f2a90c1"),
        (["explain", "nothex"], "an intent key is 4 to 32 hexadecimal digits, such as 3f2a90c1"),
        (["explain", "0000"], "no intent key begins with 0000"),
        (["status", "autumn"], "no such batch; `sendledger status` lists them all"),
        (["pause", "everything"], NO_SCOPE),
        (["pause", "purpose:"], NO_SCOPE),
        (["pause", "batch:spring-reports"], NO_SCOPE),
        (["pause", "sender:email"], NO_SCOPE),
        (
            ["pause", "batch:spring-reports/2026-1/emial"],
            "no channel of this name is configured, so nothing would be paused; configured: email",
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
            ["plan", "batch.yaml", "-r", "recipients.csv", "--preview", "2", "--json"],
            "a preview is for a person to look at; leave out --json",
        ),
        (
            ["work", "--within", "1h"],
            "--within says how long --drain waits; give both, or neither",
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
