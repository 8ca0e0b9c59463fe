"""Settings: typed once, refused with all their problems, and never with a value."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError, field_validator, model_validator

from sendledger.plugin import Duration, LocalPath, PositiveDuration, Secret, SettingsModel
from sendledger.settings.load import load, load_settings
from sendledger.settings.model import Settings
from sendledger.settings.problems import SettingsError
from sendledger.settings.validate import SECRETS, RawBlock, validate_block


class Mode(Enum):
    PLAIN = "plain"
    SECURE = "secure"


class Timeouts(SettingsModel):
    greeting: PositiveDuration = timedelta(minutes=5)


class RelaySettings(SettingsModel):
    host: str
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    mode: Mode = Mode.SECURE
    order: Literal["first", "last"] = "first"
    share: float = Field(default=0.5, gt=0, allow_inf_nan=False)
    verify: bool = True
    wait: Duration = timedelta(0)
    user: str | None = None
    password: Secret | None = None
    ca_file: LocalPath | None = None
    names: tuple[str, ...] = ()
    timeouts: Timeouts = Timeouts()
    relays: dict[str, Timeouts] = {}  # noqa: RUF012 - pydantic copies defaults

    @field_validator("host")
    @classmethod
    def _check_host(cls, host: str) -> str:
        if " " in host:
            raise ValueError(f"{host} is no host name")
        return host

    @model_validator(mode="after")
    def _together(self) -> RelaySettings:
        if self.mode is Mode.PLAIN and self.password is not None:
            raise ValueError(f"mode plain and password exclude each other for {self.host}")
        return self


def write(folder: Path, text: str) -> Path:
    file = folder / "settings.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def settings(folder: Path, text: str, **env: str) -> Settings:
    return load_settings(write(folder, text), env)


def problems(folder: Path, text: str, **env: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        settings(folder, text, **env)
    assert "hunter22" not in str(caught.value)
    return caught.value.problems


def relay(folder: Path, *lines: str) -> RawBlock:
    text = "database: embedded\nchannels:\n  email:\n    plugin: smtp\n    settings:\n"
    text += "".join(f"      {line}\n" for line in lines)
    return settings(folder, text, KEY="hunter22").channels["email"].settings


def relay_problems(folder: Path, *lines: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        validate_block(RelaySettings, relay(folder, *lines))
    assert "hunter22" not in str(caught.value)
    return [problem.removeprefix("channels.email.settings") for problem in caught.value.problems]


def test_defaults_stand_in_for_what_is_not_said(tmp_path: Path) -> None:
    found = settings(tmp_path, "database: embedded\n")
    assert found.database.embedded is not None
    assert found.database.dsn is None
    assert found.state_dir == tmp_path / "state"
    assert found.plugins == ("policy",)
    assert (found.channels, found.policy) == ({}, None)
    assert found.worker.model_dump() == {
        "lease": "30s",
        "sweep": "15s",
        "poll": "2s",
        "claim_max": 100,
        "stop_grace": "30s",
    }
    assert found.worker.lease == timedelta(seconds=30)


def test_the_database_is_embedded_or_a_secret_dsn_and_never_left_out(tmp_path: Path) -> None:
    embedded = settings(tmp_path, "database: {embedded: {port: 5544}}").database.embedded
    assert embedded is not None
    assert embedded.port == 5544
    found = settings(tmp_path, "database: {dsn: {$env: DSN}}", DSN="postgresql://hunter22")
    assert found.database.dsn == Secret("postgresql://hunter22")
    assert "hunter22" not in repr(found)
    assert problems(tmp_path, "channels: {}\n") == [
        (
            "database (line 1): is required: the word embedded, {embedded: {port: N}},"
            " or {dsn: {$env: NAME}}"
        )
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hunter22", "expected the word embedded"),
        ("{$env: DSN}", "expected the word embedded"),
        ("[embedded]", "expected the word embedded"),
        ("{}", "expected the word embedded"),
        ("{embedded: {}, dsn: {$env: DSN}}", "expected the word embedded"),
        (
            "{dsn: postgresql://u:hunter22@db/x}",
            "secrets are given as {$env: NAME} or {$file: path}",
        ),
        ("{embedded: {port: 0}}", "expected a whole number of at least 1"),
        ("{embedded: 5544}", "expected a block of keys with values"),
    ],
)
def test_any_other_database_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    [problem] = problems(tmp_path, f"database: {text}\n", DSN="postgresql://hunter22")
    assert problem.startswith("database")
    assert expected in problem


def test_paths_are_relative_to_the_settings_file(tmp_path: Path) -> None:
    found = settings(tmp_path, "database: embedded\nstate_dir: s\npolicy: /etc/p.yaml\n")
    assert (found.state_dir, found.policy) == (tmp_path / "s", Path("/etc/p.yaml"))


def test_all_problems_are_reported_at_once_each_with_path_and_line(tmp_path: Path) -> None:
    text = """\
databse: embedded
database: embedded
channels:
  email:
    plugin: smtp
    slots: hunter22
    settings: hunter22
  Loud: {plugin: smtp}
  sms:
    slots: 0
    setings: {}
worker: {lease: 0s, poll: 5}
"""
    name = (
        "expected a name of at most 32 lower-case letters, digits, _ and -, beginning with a letter"
    )
    assert problems(tmp_path, text) == [
        "databse (line 1): unknown key; did you mean database?",
        "channels.email.slots (line 6): expected a whole number of at least 1 and at most 10000",
        "channels.email.settings (line 7): expected a block of keys with values",
        f"channels.Loud (line 8): {name}",
        "channels.sms.plugin (line 9): is required",
        "channels.sms.slots (line 10): expected a whole number of at least 1",
        "channels.sms.setings (line 11): unknown key; did you mean settings?",
        "worker.lease (line 12): expected a duration longer than 0s",
        "worker.poll (line 12): expected a duration such as 30s, 8m, 1h30m or 2d",
    ]


def test_a_missing_secret_is_reported_beside_other_problems(tmp_path: Path) -> None:
    text = "database: {dsn: {$env: DSN}}\nchannels: {email: {plugin: smtp, settings: {k: {$env: KEY}}}}\nx: 1\n"
    found = problems(tmp_path, text)
    assert [problem.partition(": ")[0] for problem in found] == [
        "database.dsn (line 1)",
        "channels.email.settings.k (line 2)",
        "x (line 3)",
    ]


def test_a_channel_block_is_typed_by_the_model_of_its_plugin(tmp_path: Path) -> None:
    block = relay(
        tmp_path, "host: relay.test", "port: '25'", "mode: secure", "verify: no", "wait: 1m30s",
        "password: {$env: KEY}", "ca_file: ca.pem", "names: [NO, 010]", "timeouts: {greeting: 5s}",
    )  # fmt: skip
    found = validate_block(RelaySettings, block)
    assert (found.port, found.verify, found.wait) == (25, False, timedelta(seconds=90))
    assert found.ca_file == tmp_path / "ca.pem"
    assert found.names == ("NO", "010")
    assert found.password == Secret("hunter22")
    assert "hunter22" not in repr(found) + repr(block)
    with pytest.raises(ValidationError):
        found.port = 26


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("prot: 5", ".prot (line 7): unknown key; did you mean port?"),
        ("port: hunter22", ".port (line 7): expected a whole number of at least 1 and at most 65535"),
        ("port: 70000", ".port (line 7): expected a whole number of at most 65535"),
        ("share: 0", ".share (line 7): expected a number of more than 0"),
        ("share: hunter22", ".share (line 7): expected a number of more than 0"),
        ("share: nan", ".share (line 7): expected a number of more than 0"),
        ("mode: hunter22", ".mode (line 7): expected plain or secure"),
        ("order: hunter22", ".order (line 7): expected first or last"),
        ("verify: hunter22", ".verify (line 7): expected true or false"),
        ("wait: hunter22", ".wait (line 7): expected a duration such as 30s, 8m, 1h30m or 2d"),
        ("wait: 87601h", ".wait (line 7): expected a duration of at most ten years"),
        ("wait: [5s]", ".wait (line 7): expected a duration such as 30s, 8m, 1h30m or 2d"),
        ("names: hunter22", ".names (line 7): expected a list"),
        ("user: [hunter22]", ".user (line 7): expected a text"),
        ("user: {$env: KEY}", ".user (line 7): this is no secret; write the value here instead of a reference"),
        ("wait: {$env: KEY}", ".wait (line 7): expected a duration such as 30s, 8m, 1h30m or 2d"),
        ("password: hunter22", f".password (line 7): {SECRETS}"),
        ("password: ${KEY}", f".password (line 7): {SECRETS}"),
        ("timeouts: hunter22", ".timeouts (line 7): expected a block of keys with values"),
        ("timeouts: {zzz: 5s}", ".timeouts.zzz (line 7): unknown key; known here: greeting"),
        ("timeouts: {greting: 5s}", ".timeouts.greting (line 7): unknown key; did you mean greeting?"),
        ("relays: {a: {greting: 5s}}", ".relays.a.greting (line 7): unknown key; did you mean greeting?"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_what_was_expected_and_never_quoted(
    tmp_path: Path, line: str, problem: str
) -> None:
    assert relay_problems(tmp_path, "host: relay.test", line) == [problem]


def test_a_validator_that_quotes_what_it_was_given_is_silenced(tmp_path: Path) -> None:
    assert relay_problems(tmp_path, "host: hunter22 x") == [".host (line 6): *** is no host name"]
    assert relay_problems(tmp_path, "host: hunter22", "mode: plain", "password: {$env: KEY}") == [
        " (line 5): mode plain and password exclude each other for ***"
    ]


def test_a_channel_without_a_block_has_an_empty_one_at_its_own_line(tmp_path: Path) -> None:
    found = settings(tmp_path, "database: embedded\nchannels:\n  email: {plugin: smtp}\n")
    with pytest.raises(SettingsError) as caught:
        validate_block(RelaySettings, found.channels["email"].settings)
    assert caught.value.problems == ["channels.email.settings.host (line 3): is required"]


def test_a_block_as_a_whole_can_be_complained_about(tmp_path: Path) -> None:
    error = relay(tmp_path, "host: relay.test").problem("the plugin said no")
    assert error.problems == ["channels.email.settings (line 5): the plugin said no"]


def test_the_policys_scale_divides_the_worker_too_and_sets_nothing(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("scale: 60\n", encoding="utf-8")
    file = write(tmp_path, "database: embedded\npolicy: p.yaml\nworker: {lease: 1m}\n")
    found, policy = load(file, {})
    assert policy.scale == 60
    assert found.worker.lease == timedelta(seconds=1)
    assert found.worker.sweep == timedelta(milliseconds=250)
    assert found.worker.claim_max == 100
    assert found.worker.model_fields_set == {"lease"}
    assert found.model_fields_set == {"database", "policy", "worker"}
