"""What tests of the SMTP channel share: a channel pointed at a peer, an envelope, and the shipped rules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from sendledger.ledger.classification import classify, sound
from sendledger.ledger.rule_table import parse_rules
from sendledger.plugin import Classification, Envelope, Evidence, SessionRefused
from sendledger_smtp import SmtpChannel, SmtpSettings

ROOT = Path(__file__).parents[1]
INPUTS = ROOT / "tests/cases/inputs"
TABLE = ROOT / "config/classification/smtp.yaml"
RULES = parse_rules(yaml.load(TABLE.read_text(), Loader=yaml.BaseLoader), TABLE.name)

TOKEN = "abcdefghijklmnopqrstuvwxyz234567abcdefghijkl"
PLEASANT = "pupil.parent@example.com"
MESSAGE = b"Subject: t\r\n\r\nhello\r\n"

EHLO = "250-relay.example greets you\r\n250-SIZE 26214400\r\n250 ENHANCEDSTATUSCODES\r\n"
Steps = list[Mapping[str, Any]]

GREETED: Steps = [{"send": "220 relay.example ESMTP\r\n"}, {"expect": "EHLO"}, {"send": EHLO}]
AT_RCPT: Steps = [
    *GREETED,
    {"expect": "MAIL FROM"},
    {"send": "250 2.1.0 Ok\r\n"},
    {"expect": "RCPT TO"},
]
AT_DATA: Steps = [*AT_RCPT, {"send": "250 2.1.5 Ok\r\n"}, {"expect": "DATA"}]
AT_DOT: Steps = [*AT_DATA, {"send": "354 go on\r\n"}, {"expect_data": True}]
BYE: Steps = [{"expect": "QUIT"}, {"send": "221 2.0.0 Bye\r\n"}, {"close": True}]
HUSH: Mapping[str, Any] = {"stall_s": 60}

PHASES = ("connect", "greeting", "command", "data_init", "data_block", "data_end")
PROMPT = dict.fromkeys(PHASES, "10s")
SCALED = dict.fromkeys(PHASES, "1s")
"""The waits of the case corpus: every one scaled down to a second."""

both = pytest.mark.parametrize("together", [False, True], ids=["singly", "together"])
"""Whether MAIL, RCPT and DATA go in one write: what is known afterwards must be the same."""


class Peer(Protocol):
    """Anything that listens."""

    host: str
    port: int


def settings_for(peer: Peer, **changes: Any) -> SmtpSettings:
    """Return settings as a file would give them, every scalar as text."""
    written = {
        "host": peer.host,
        "port": str(peer.port),
        "tls": "none",
        "sender": "reports@sender.example",
        "return_path_domain": "bounces.sender.example",
        "timeouts": PROMPT,
    }
    return SmtpSettings.model_validate(written | changes)


def channel_for(peer: Peer, **changes: Any) -> SmtpChannel:
    """Return a channel without TLS that hands over to *peer*."""
    return SmtpChannel(settings_for(peer, **changes))


def envelope(destination: str = PLEASANT, message: bytes = MESSAGE) -> Envelope:
    """Return an envelope of a first attempt."""
    return Envelope(
        intent_key="1f" * 16,
        attempt_number=1,
        token=TOKEN,
        destination=destination,
        message=message,
    )


async def hand_over(channel: SmtpChannel, one: Envelope) -> Evidence:
    """Return the evidence of one attempt, that of a refused session included."""
    try:
        async with channel.sendledger_session() as session:
            return await channel.sendledger_submit(session, one)
    except SessionRefused as refused:
        return refused.evidence


async def hand_over_once(peer: Peer, one: Envelope, **changes: Any) -> Evidence:
    """Return the evidence of one attempt on a channel of its own, closed afterwards."""
    channel = channel_for(peer, **changes)
    try:
        return await hand_over(channel, one)
    finally:
        await channel.aclose()


def judge(evidence: Evidence) -> Classification:
    """Say what *evidence* means by the shipped table."""
    return sound(classify(RULES, evidence), evidence)
