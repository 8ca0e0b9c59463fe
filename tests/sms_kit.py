"""What tests of the SMS channel share: a channel pointed at a peer, an envelope, and the shipped rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from sendledger.ledger.classification import classify, sound, sound_later
from sendledger.ledger.rule_table import parse_rules
from sendledger.plugin import Classification, Envelope, Evidence, Secret, SessionRefused
from sendledger_twilio import TwilioChannel, TwilioSettings

ROOT = Path(__file__).parents[1]
INPUTS = ROOT / "tests/cases/inputs"
TABLE = ROOT / "config/classification/twilio.yaml"
RULES = parse_rules(yaml.load(TABLE.read_text(), Loader=yaml.BaseLoader), TABLE.name)

ACCOUNT = "AC00000000000000000000000000000001"
AUTH_TOKEN = "0123456789abcdef0123456789abcdef"
SERVICE = "MG00000000000000000000000000000001"
SENDER = "+15005550006"
SID = "SM00000000000000000000000000000a01"
TOKEN = "abcdefghijklmnopqrstuvwxyz234567abcdefghijkl"
PLEASANT = "+12025550143"
BODY = "Sam has passed: see https://school.example/r/1"
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
PROMPT: Mapping[str, str] = {"connect": "10s", "answer": "10s"}


def settings_for(base_url: str | None = None, **changes: Any) -> TwilioSettings:
    """Return settings as a file would give them, every scalar as text."""
    written: dict[str, Any] = {
        "account_sid": ACCOUNT,
        "auth_token": Secret(AUTH_TOKEN),
        "senders": [SENDER],
        "countries": ["US", "PR", "CA"],
        "default_region": "US",
        "timeouts": PROMPT,
    }
    if base_url is not None:
        written["base_url"] = base_url
    kept = {name: value for name, value in (written | changes).items() if value is not None}
    return TwilioSettings.model_validate(kept)


def channel_for(
    base_url: str | None = None, clock: Callable[[], datetime] | None = None, **changes: Any
) -> TwilioChannel:
    """Return a channel that hands over to what listens at *base_url*."""
    settings = settings_for(base_url, **changes)
    return TwilioChannel(settings) if clock is None else TwilioChannel(settings, clock)


def envelope(destination: str = PLEASANT, **changes: Any) -> Envelope:
    """Return an envelope of a first attempt."""
    first = Envelope(
        intent_key="1f" * 16,
        attempt_number=1,
        token=TOKEN,
        destination=destination,
        message=BODY.encode(),
    )
    return replace(first, **changes)


async def hand_over(channel: TwilioChannel, one: Envelope | None = None) -> Evidence:
    """Return the evidence of one attempt, that of a refused session included."""
    try:
        async with channel.sendledger_session() as session:
            return await channel.sendledger_submit(session, one or envelope())
    except SessionRefused as refused:
        return refused.evidence


async def hand_over_once(base_url: str, one: Envelope | None = None, **changes: Any) -> Evidence:
    """Return the evidence of one attempt on a channel of its own, closed afterwards."""
    channel = channel_for(base_url, **changes)
    try:
        return await hand_over(channel, one)
    finally:
        await channel.aclose()


def judge(evidence: Evidence) -> Classification:
    """Say what the answer to a submission means by the shipped table."""
    return sound(classify(RULES, evidence), evidence)


def judge_later(evidence: Evidence) -> Classification:
    """Say what a receipt or a find means by the shipped table."""
    return sound_later(classify(RULES, evidence))
