"""Attachments: each recipient gets the very file that was planned, or fails alone with the reason."""

from __future__ import annotations

import hashlib
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import pytest

from acceptance.rig import Site, drained, people, relay_of
from sendledger_sandbox import CaptureServer

COUNT = 240


@pytest.fixture
def reports(site: Site) -> Path:
    """Make a folder of 240 different reports, which the settings allow and the batch names."""
    folder = site.folder / "reports"
    folder.mkdir()
    for number in range(1, COUNT + 1):
        (folder / f"s{number}.pdf").write_bytes(report(number))
    site.settings["attachments"] = {"roots": ["reports"], "max_bytes": "100kB"}
    site.batch["attachments"] = [
        {
            "url": f"file://{folder}/{{{{id}}}}.pdf",
            "name": "{{name}}.pdf",
            "media_type": "application/pdf",
        }
    ]
    return folder


def report(number: int) -> bytes:
    return b"%PDF-1.7\r\n.\r\n" + number.to_bytes(4, "big") * (1000 + number)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def received(relay: CaptureServer) -> dict[str, list[tuple[str | None, str]]]:
    """Return name and digest of each attachment that arrived, by recipient id."""
    assert relay.keep is not None
    found: dict[str, list[tuple[str | None, str]]] = {}
    for path in sorted(relay.keep.iterdir()):
        message = message_from_bytes(path.read_bytes(), policy=policy.default)
        assert isinstance(message, EmailMessage)
        files = [(one.get_filename(), digest(_content(one))) for one in message.iter_attachments()]
        found[message["To"].addresses[0].username.replace("parent", "s")] = files
    return found


def _content(part: EmailMessage) -> bytes:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content


async def test_240_recipients_get_240_different_reports_and_three_fail_alone(
    site: Site, reports: Path
) -> None:
    async with relay_of(site) as relay:
        await site.planned(people(COUNT))
        (reports / "s7.pdf").unlink()
        (reports / "s8.pdf").write_bytes(report(9))
        (reports / "s9.pdf").write_bytes(bytes(100_001))
        await drained(site)

        rules = {row.recipient_id: row.rule for row in site.rows() if row.status == "failed"}
        assert rules == {
            "s7": "attachment.missing",
            "s8": "attachment.changed",
            "s9": "attachment.too-large",
        }
        assert {row.attempts for row in site.rows() if row.recipient_id in rules} == {0}
        others = [n for n in range(1, COUNT + 1) if f"s{n}" not in rules]
        assert received(relay) == {
            f"s{n}": [(f"Child s{n}.pdf", digest(report(n)))] for n in others
        }
