"""What a server said is in the ledger byte for byte, whatever bytes these are."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from acceptance.rig import Site, drained, found_site
from smtp_kit import AT_DOT, AT_RCPT, BYE, HUSH, PLEASANT, Steps, both
from smtp_peer import ScriptedPeer

ODD = b"\x00\xff\xd3\xc3 \x7f\x1b[2J \xed\xa0\x80"
"""NUL, bytes of no charset, control characters, half of a surrogate pair."""

REFUSAL = b"550-5.1.1 " + ODD + b"\r\n550 5.1.1 " + ODD + b"\r\n"
ACCEPTANCE = b"250-2.0.0 " + ODD + b"\r\n250 2.0.0 Ok: queued as " + ODD + b"\n"
GARBAGE = ODD + b"\r\n"


@pytest.fixture
def site(tmp_path: Path, database: str, installation_id: UUID) -> Site:
    site = found_site(tmp_path, database, installation_id)
    site.settings["channels"]["email"]["slots"] = "1"
    return site


def said(site: Site) -> list[tuple[bytes, str, str]]:
    return site.select(
        "SELECT literal, outcome, stage FROM sendledger.evidence"
        " JOIN sendledger.observation USING (intent_id, seq)"
    )


@both
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([*AT_RCPT, {"send_hex": REFUSAL.hex()}, *BYE], (REFUSAL, "permanent", "rcpt")),
        ([*AT_DOT, {"send_hex": REFUSAL.hex()}, *BYE], (REFUSAL, "permanent", "dot")),
        ([*AT_DOT, {"send_hex": ACCEPTANCE.hex()}, *BYE], (ACCEPTANCE, "accepted", "dot")),
        ([*AT_DOT, {"send_hex": GARBAGE.hex()}, HUSH], (GARBAGE, "ambiguous", "dot/protocol")),
    ],
    ids=["recipient refused", "message refused", "accepted", "no reply at all"],
)
async def test_every_byte_of_a_reply_is_evidence(
    steps: Steps, expected: tuple[bytes, str, str], site: Site, *, together: bool
) -> None:
    async with ScriptedPeer(scripts=[steps], pipelining=together) as peer:
        site.relay["port"] = str(peer.port)
        await site.planned({"parent": PLEASANT})
        await drained(site)
    assert said(site) == [expected]


async def test_replies_that_lost_count_are_evidence_and_cost_no_attempt_of_the_budget(
    site: Site,
) -> None:
    replies = b"250 " + ODD + b"\r\n354 " + ODD + b"\r\n"
    lost: Steps = [*AT_RCPT[:-2], {"send_hex": replies.hex()}, HUSH]
    async with ScriptedPeer(scripts=[lost], pipelining=True) as peer:
        site.relay["port"] = str(peer.port)
        await site.planned({"parent": PLEASANT})
        await drained(site)
    assert said(site) == [(replies, "transient", "rcpt/unsynchronised")]
    assert site.select("SELECT rule, scope, spent FROM sendledger.observation WHERE seq = 2") == [
        ("smtp.unsynchronised", "channel", False)
    ]
