"""The injection cases that end in headers: what people typed never becomes a header or a mailbox."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
import yaml

from sendledger.content import compile_template
from sendledger.plugin import Addressee, Content, ContentFault, Outcome, Writer
from sendledger_sandbox import CaptureServer
from sendledger_smtp import SmtpChannel
from smtp_kit import INPUTS, TOKEN, channel_for, envelope, hand_over, judge, settings_for
from smtp_peer import ScriptedPeer

ALTERNATIVES = yaml.safe_load((Path(__file__).parent / "alternatives.yaml").read_text())
CASES = {
    case["id"]: case
    for case in yaml.safe_load((INPUTS / "cases.yaml").read_text())["cases"]
    if case["id"] in {"inj-01", "inj-02", "inj-04"}
}
REFUSED_BY = {"header_injection": "content.header-injection"}


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = CASES[name]["expected"]
    return found


def writer(subject: str, settings: Mapping[str, str] | None = None) -> Writer:
    parts = {
        "subject": compile_template(subject, name="subject", html=False),
        "text": compile_template("Hello", name="text", html=False),
    }
    content = Content(revision="ab" * 32, parts=parts, settings=settings or {})
    channel = SmtpChannel(
        settings_for(ScriptedPeer(scripts=[]), port="25"),
        clock=lambda: datetime(2026, 3, 2, tzinfo=UTC),
    )
    return channel.sendledger_prepare(content)


def addressee(**variables: str) -> Addressee:
    return Addressee(
        intent_key="1f" * 16,
        attempt_number=1,
        token=TOKEN,
        destination="pat@example.com",
        variables=variables,
    )


def parsed(raw: bytes) -> EmailMessage:
    message = message_from_bytes(raw, policy=policy.default)
    assert isinstance(message, EmailMessage)
    assert len(message.keys()) == len(set(message.keys()))
    return message


def test_inj_01_a_line_break_in_a_subject_is_refused_and_recorded_as_such() -> None:
    inline = CASES["inj-01"]["input_inline"]
    with pytest.raises(ContentFault) as caught:
        writer(inline["subject_template"]).write(addressee(name=inline["name"]))
    assert caught.value.rule == REFUSED_BY[expected("inj-01")["reason"]]
    assert "spy" not in str(caught.value)


async def test_inj_02_an_encoded_line_break_is_a_subject_on_one_line_and_no_header(
    tmp_path: Path,
) -> None:
    subject = CASES["inj-02"]["input_inline"]["subject"]
    raw = writer("{{s}}").write(addressee(s=subject))
    async with CaptureServer(journal=tmp_path / "accepted.jsonl", keep=tmp_path) as server:
        channel = channel_for(server)
        found = judge(await hand_over(channel, envelope(message=raw)))
        await channel.aclose()
    assert found.outcome is Outcome.ACCEPTED
    received = (tmp_path / "000001.eml").read_bytes()
    assert sum(line.startswith(b"Subject:") for line in received.split(b"\r\n")) == 1
    message = parsed(received)
    assert message["Subject"] == subject
    for header, count in expected("inj-02")["wire_headers_contain"].items():
        assert len(message.get_all(header, [])) == count
    assert ALTERNATIVES["inj-02"]["submissions"]["because"] == expected("inj-02")["or"]


def test_inj_04_a_display_name_is_a_name_whatever_it_holds() -> None:
    inline = CASES["inj-04"]["input_inline"]
    raw = writer("s", {"from_name": inline["display_name"]}).write(addressee())
    addresses = parsed(raw)["From"].addresses
    assert len(addresses) == expected("inj-04")["from_header_addresses"]
    assert addresses[0].addr_spec == expected("inj-04")["addr_spec"] == inline["addr_spec"]
    assert (addresses[0].display_name == inline["display_name"]) == expected("inj-04")[
        "display_name_roundtrips"
    ]
