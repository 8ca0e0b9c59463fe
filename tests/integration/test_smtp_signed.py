"""A signed message arrives as it was signed, dots, long lines and all."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import dkim
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from sendledger.content import load_content
from sendledger.plugin import Addressee, Content, Outcome, Secret
from sendledger_sandbox import CaptureServer
from sendledger_smtp.dkim import DkimSettings
from smtp_kit import PLEASANT, TOKEN, channel_for, envelope, hand_over, judge
from smtp_peer import ScriptedPeer

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PEM = KEY.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.NoEncryption(),
)
TEXT = "Hi {{name}}\n.\n..\n{{long}}\n \t\nGrüße\n\n\n"


def look_up(name: bytes, timeout: int = 5) -> bytes:
    del timeout
    assert name == b"s1._domainkey.sender.example."
    return b"v=DKIM1; k=ed25519; p=" + b64encode(KEY.public_key().public_bytes_raw())


def signing(domain: str) -> DkimSettings:
    return DkimSettings(domain=domain, selector="s1", key=Secret(PEM.decode()))


async def test_what_arrives_still_bears_its_signature(tmp_path: Path) -> None:
    async with CaptureServer(journal=tmp_path / "accepted.jsonl", keep=tmp_path) as server:
        channel = channel_for(server, dkim=signing("sender.example"))
        parts = load_content({"subject": "s", "text": TEXT}, channel.capabilities.parts).parts
        writer = channel.sendledger_prepare(Content(revision="ab" * 32, parts=parts))
        message = writer.write(
            Addressee(
                intent_key="1f" * 16,
                attempt_number=1,
                token=TOKEN,
                destination=PLEASANT,
                variables={"name": "Zoë", "long": "x" * 2000},
            )
        )
        found = judge(await hand_over(channel, envelope(message=message)))
        await channel.aclose()
    assert found.outcome is Outcome.ACCEPTED
    received = (tmp_path / "000001.eml").read_bytes()
    assert received == message
    assert dkim.verify(received, dnsfunc=look_up)


def test_a_signature_that_would_count_for_nobody_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"dkim\.domain: expected the sender's domain"):
        channel_for(ScriptedPeer(scripts=[]), port="25", dkim=signing("other.example"))
