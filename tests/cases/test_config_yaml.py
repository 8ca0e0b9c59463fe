"""Configuration cases cfg-01 to cfg-06: the hazards of YAML, in this product's own keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from sendledger.plugin import Secret, SettingsModel
from sendledger.settings.load import load_policy, load_settings
from sendledger.settings.problems import SettingsError
from sendledger.settings.validate import SECRETS, validate_block


class RelaySettings(SettingsModel):
    username: str
    password: Secret


class GatewaySettings(SettingsModel):
    sender: str = ""
    countries: tuple[str, ...] = ()
    schools: tuple[dict[str, str], ...] = ()


def write(folder: Path, text: str) -> Path:
    file = folder / "sendledger.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def channel(folder: Path, block: str, env: dict[str, str] | None = None) -> SettingsModel:
    text = f"database: embedded\nchannels:\n  main:\n    plugin: any\n    settings:\n{block}"
    settings = load_settings(write(folder, text), env or {})
    model = RelaySettings if "password" in block else GatewaySettings
    return validate_block(model, settings.channels["main"].settings)


def test_cfg_01_a_repeated_key_is_an_error_that_names_path_and_both_lines(tmp_path: Path) -> None:
    file = write(
        tmp_path, "retry:\n  attempts_hard_max: 20\n  jitter: 0.5\n  attempts_hard_max: 50\n"
    )
    with pytest.raises(SettingsError) as caught:
        load_policy(file)
    assert caught.value.problems == [
        "retry.attempts_hard_max (line 4): given twice, first on line 2; keep one of them"
    ]


def test_cfg_02_norway_is_a_country(tmp_path: Path) -> None:
    found = channel(tmp_path, "      countries: [SE, NO, FI]\n")
    assert found == GatewaySettings(countries=("SE", "NO", "FI"))


def test_cfg_03_a_telephone_number_keeps_its_plus(tmp_path: Path) -> None:
    found = channel(tmp_path, "      sender: +15005550006\n")
    assert found == GatewaySettings(sender="+15005550006")


def test_cfg_04_a_password_is_given_by_reference_and_survives_byte_for_byte(tmp_path: Path) -> None:
    env = {"USER": "root", "PASSWORD": "pa$USERword"}
    found = channel(tmp_path, "      username: mailer\n      password: {$env: PASSWORD}\n", env)
    assert found == RelaySettings(username="mailer", password=Secret("pa$USERword"))


def test_cfg_04_a_password_written_in_place_is_refused_without_being_shown(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        channel(
            tmp_path, '      username: mailer\n      password: "pa$USERword"\n', {"USER": "root"}
        )
    where = "channels.main.settings.password (line 7)"
    assert caught.value.problems == [f"{where}: {SECRETS}"]


def test_cfg_05_a_reference_to_an_unset_variable_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        channel(tmp_path, "      username: mailer\n      password: {$env: SMTP_PASSWORD}\n")
    [problem] = caught.value.problems
    assert problem.startswith(
        "channels.main.settings.password (line 7): environment variable SMTP_PASSWORD is not set"
    )


def test_cfg_05_the_shell_form_is_never_taken_for_a_password(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"password \(line 7\): secrets are given as"):
        channel(tmp_path, "      username: mailer\n      password: ${SMTP_PASSWORD}\n")


def test_cfg_06_codes_keep_their_zeros(tmp_path: Path) -> None:
    found = channel(tmp_path, "      schools: [{id: 07}, {id: 08}, {id: 010}]\n")
    assert found == GatewaySettings(schools=({"id": "07"}, {"id": "08"}, {"id": "010"}))
