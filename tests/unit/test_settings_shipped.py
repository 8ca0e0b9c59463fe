"""The shipped configuration: it loads, says what it claims, and its schemas are up to date."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from sendledger.settings.describe import Described, Difference, describe, differences
from sendledger.settings.load import load, load_policy
from sendledger.settings.policy import PolicySettings
from sendledger.settings.schema import json_schema, policy_schema, render
from sendledger.settings.types import SettingsModel, Size
from sendledger.settings.validate import validate_block
from sendledger_smtp import SmtpSettings
from sendledger_twilio import TwilioSettings

CONFIG = Path(__file__).resolve().parents[2] / "config"
ENV = {"SENDLEDGER_SMTP_PASSWORD": "hunter22", "SENDLEDGER_TWILIO_TOKEN": "hunter33"}
MODELS: dict[str, type[BaseModel]] = {"smtp": SmtpSettings, "twilio": TwilioSettings}


def test_the_example_loads_and_its_worker_is_the_default() -> None:
    settings, policy = load(CONFIG / "example.yaml", ENV)
    relay = validate_block(SmtpSettings, settings.channels["email"].settings)
    assert (relay.dial_port, relay.tls) == (587, "starttls")
    assert differences(settings.worker, type(settings.worker)()) == []
    assert policy == load_policy(CONFIG / "policy.yaml")


def test_the_sms_channel_of_the_example_is_one_when_it_is_wanted(tmp_path: Path) -> None:
    text = (CONFIG / "example.yaml").read_text(encoding="utf-8")
    before, _, after = text.partition("  # sms:\n")
    block, _, rest = after.partition("\n\n")
    wanted = "\n".join(line.replace("  # ", "  ", 1) for line in f"  # sms:\n{block}".splitlines())
    (tmp_path / "policy.yaml").write_text((CONFIG / "policy.yaml").read_text("utf-8"), "utf-8")
    (tmp_path / "sendledger.yaml").write_text(f"{before}{wanted}\n\n{rest}", encoding="utf-8")
    settings, _ = load(tmp_path / "sendledger.yaml", ENV)
    account = validate_block(TwilioSettings, settings.channels["sms"].settings)
    assert account.countries == ("US",)
    assert account.auth_token.reveal() == "hunter33"


def test_the_example_policy_is_slower_and_gives_up_after_two_days() -> None:
    retry = load_policy(CONFIG / "policy.yaml").retry
    assert (min(retry.delays), max(retry.delays)) == (timedelta(minutes=5), timedelta(hours=4))
    assert retry.give_up_after == timedelta(days=2)
    assert (
        sum(retry.delays, timedelta(0)) < timedelta(days=2) < sum(retry.delays, timedelta(0)) * 1.25
    )


def test_the_demo_stays_on_this_machine_and_only_hurries(tmp_path: Path) -> None:
    for name in ("demo.yaml", "demo-policy.yaml"):
        (tmp_path / name).write_text((CONFIG / name).read_text("utf-8"), "utf-8")
    secret = tmp_path / "demo-state" / "twilio.secret"
    secret.parent.mkdir()
    secret.touch(mode=0o600)
    secret.write_text("hunter44", "utf-8")
    settings, policy = load(tmp_path / "demo.yaml", {})
    relay = validate_block(SmtpSettings, settings.channels["email"].settings)
    assert relay.loopback
    assert relay.dial_port == 18025
    account = validate_block(TwilioSettings, settings.channels["sms"].settings)
    assert account.base_url == "http://127.0.0.1:18400"
    assert settings.http.public_url == "http://127.0.0.1:18080"
    changed = differences(policy, PolicySettings())
    assert Difference(path="scale", value="60", default="1") in changed
    assert Difference(path="unknown.wait", value="12s", default="1h") in changed
    assert policy.model_fields_set == {"scale", "unknown", "look_up"}


def test_what_was_understood_is_told_with_its_origin_and_without_secrets() -> None:
    settings, _ = load(CONFIG / "example.yaml", ENV)
    relay = validate_block(SmtpSettings, settings.channels["email"].settings)
    rows = describe(settings, {"email": relay})
    assert Described(path="database.embedded.port", value="not set", origin="default") in rows
    assert Described(path="channels.email.slots", value="50", origin="set") in rows
    assert Described(path="channels.email.settings.password", value="***", origin="set") in rows
    assert Described(path="channels.email.settings.tls", value="starttls", origin="set") in rows
    assert (
        Described(path="channels.email.settings.timeouts.greeting", value="5m", origin="default")
        in rows
    )
    assert Described(path="worker.sweep", value="15s", origin="set") in rows
    assert "hunter22" not in repr(rows)
    assert not [row for row in describe(settings) if row.path.startswith("channels.email.settings")]


def test_a_policy_is_described_by_its_rules_names() -> None:
    rows = describe(load_policy(CONFIG / "policy.yaml"))
    assert (
        Described(path="classification.smtp", value="site.relay-maintenance", origin="set") in rows
    )
    assert Described(path="back_off.intents", value="3", origin="set") in rows
    assert Described(path="scale", value="1", origin="default") in rows


def test_the_schemas_for_editors_are_up_to_date() -> None:
    plugins = "smtp=sendledger_smtp twilio=sendledger_twilio"
    remedy = f"run: python -m sendledger.settings.schema {plugins} > config/sendledger.schema.json"
    settings = render(json_schema(MODELS))
    assert (CONFIG / "sendledger.schema.json").read_text(encoding="utf-8") == settings, remedy
    remedy = "run: python -m sendledger.settings.schema --policy > config/policy.schema.json"
    assert (CONFIG / "policy.schema.json").read_text(encoding="utf-8") == render(policy_schema()), (
        remedy
    )


@pytest.mark.parametrize("schema", [json_schema(MODELS), policy_schema()])
def test_every_reference_in_a_schema_leads_somewhere(schema: dict[str, Any]) -> None:
    references = {part.split('"')[0] for part in json.dumps(schema).split("#/$defs/")[1:]}
    assert references
    assert references <= schema["$defs"].keys()


def test_the_schema_takes_scalars_as_editors_read_them() -> None:
    schema = json_schema(MODELS)
    relay = schema["$defs"]["smtp.settings"]["properties"]
    assert relay["host"]["type"] == ["string", "number", "boolean"]
    assert relay["port"]["type"] == ["integer", "string"]
    assert [*relay["password"]["oneOf"][0]["properties"]] == ["$env"]
    assert relay["idle_max"]["default"] == "1m"
    [smtp, twilio, other] = schema["properties"]["channels"]["patternProperties"].popitem()[1][
        "oneOf"
    ]
    assert smtp["properties"]["plugin"] == {"const": "smtp"}
    assert twilio["properties"]["plugin"] == {"const": "twilio"}
    assert other["properties"]["plugin"]["not"] == {"enum": ["smtp", "twilio"]}


class Shown(SettingsModel):
    limit: Size = 10_000_000
    name: str = ""


def test_sizes_are_shown_as_they_are_written_and_an_empty_text_is_named() -> None:
    shown = {row.path: row.value for row in describe(Shown.model_validate({}))}
    assert shown == {"limit": "10MB", "name": "empty"}
