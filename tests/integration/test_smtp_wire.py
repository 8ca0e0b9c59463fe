"""What goes on the wire: commands with the parameters that were offered, and a message that ends where it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from sendledger.plugin import Envelope, Evidence, Outcome
from sendledger_sandbox import CaptureServer, read_journal
from sendledger_smtp.destination import read_destination
from smtp_kit import (
    BYE,
    MESSAGE,
    PLEASANT,
    TOKEN,
    Steps,
    both,
    envelope,
    hand_over_once,
    judge,
)
from smtp_peer import ScriptedPeer


def said(peer: ScriptedPeer) -> list[bytes]:
    return [octets for speaker, octets in peer.log[0] if speaker == "C"]


def ehlo(*extensions: str) -> Steps:
    *first, last = ("relay.example", *extensions)
    lines = "".join(f"250-{line}\r\n" for line in first) + f"250 {last}\r\n"
    return [{"send": "220 relay.example ESMTP\r\n"}, {"expect": "EHLO"}, {"send": lines}]


ACCEPTING: Steps = [
    {"expect": "MAIL FROM"},
    {"send": "250 ok\r\n"},
    {"expect": "RCPT TO"},
    {"send": "250 ok\r\n"},
    {"expect": "DATA"},
    {"send": "354 go\r\n"},
    {"expect_data": True},
    {"send": "250 ok\r\n"},
    *BYE,
]


async def commands(
    *extensions: str, together: bool, destination: str = PLEASANT, message: bytes = MESSAGE
) -> list[bytes]:
    """Return each line the client said, and the message as it went."""
    script = [*ehlo(*extensions), *ACCEPTING]
    async with ScriptedPeer(scripts=[script], pipelining=together) as peer:
        evidence = await hand_over_once(peer, envelope(destination, message))
    assert judge(evidence).outcome is Outcome.ACCEPTED
    assert peer.failures == []
    return said(peer)


@both
async def test_without_extensions_the_commands_are_bare(*, together: bool) -> None:
    assert await commands(together=together) == [
        b"EHLO sender.example\r\n",
        b"MAIL FROM:<b+%b@bounces.sender.example>\r\n" % TOKEN.encode(),
        b"RCPT TO:<pupil.parent@example.com>\r\n",
        b"DATA\r\n",
        MESSAGE + b".\r\n",
        b"QUIT\r\n",
    ]


@both
async def test_delivery_reports_are_asked_for_where_dsn_is_offered(*, together: bool) -> None:
    _, mail, rcpt, *_ = await commands("DSN", together=together, destination="pat+a=b@example.com")
    assert mail.endswith(b"> RET=HDRS ENVID=%b\r\n" % TOKEN.encode())
    assert rcpt == (
        b"RCPT TO:<pat+a=b@example.com> NOTIFY=FAILURE,DELAY ORCPT=rfc822;pat+2Ba+3Db@example.com\r\n"
    )


@both
async def test_the_size_is_declared_where_it_is_asked_for(*, together: bool) -> None:
    assert (await commands("SIZE 1000", together=together))[1].endswith(
        b"> SIZE=%d\r\n" % len(MESSAGE)
    )
    assert (await commands("SIZE 0", together=together))[1].endswith(
        b"> SIZE=%d\r\n" % len(MESSAGE)
    )
    assert (await commands("SIZE", together=together))[1].endswith(b"> SIZE=%d\r\n" % len(MESSAGE))


@both
async def test_a_non_ascii_local_part_asks_for_smtputf8(*, together: bool) -> None:
    _, mail, rcpt, *_ = await commands(
        "SMTPUTF8", "8BITMIME", "DSN", together=together, destination="josé@example.com"
    )
    assert b"> BODY=8BITMIME SMTPUTF8 " in mail
    assert rcpt == "RCPT TO:<josé@example.com> NOTIFY=FAILURE,DELAY\r\n".encode()


@both
async def test_an_ascii_address_asks_for_no_smtputf8(*, together: bool) -> None:
    _, mail, *_ = await commands("SMTPUTF8", "8BITMIME", together=together)
    assert mail.endswith(b"@bounces.sender.example>\r\n")


@both
@pytest.mark.parametrize(
    "address",
    ["O'Hara+tag@example.com", "a!#$%&'*+-/=?^_`{|}~@example.com", "a.b-c_d@sub-1.example.com"],
)
async def test_the_recipient_on_the_wire_is_the_address_that_was_taken_in(
    address: str, *, together: bool
) -> None:
    taken = read_destination(address).address
    _, _, rcpt, *_ = await commands(together=together, destination=taken)
    assert rcpt == f"RCPT TO:<{address}>\r\n".encode()


@both
async def test_a_message_goes_in_lines_that_end_in_crlf_with_its_dots_doubled(
    *, together: bool
) -> None:
    message = b"Subject: t\n\n.one\r..two\r\n.\r\nlast"
    *_, data, _ = await commands(together=together, message=message)
    assert data == b"Subject: t\r\n\r\n..one\r\n...two\r\n..\r\nlast\r\n.\r\n"


@both
@pytest.mark.parametrize(
    ("extension", "one", "fault"),
    [
        ("SIZE 10", envelope(), "too-large"),
        ("8BITMIME", envelope("josé@example.com"), "smtputf8-missing"),
        ("DSN", envelope("a@b.example> ORCPT=x"), "unsafe-argument"),
        ("DSN", envelope("a@b.example\r\nRCPT TO:<c@d.example"), "unsafe-argument"),
    ],
)
async def test_what_cannot_be_said_is_not_said_and_the_session_stays_good(
    extension: str, one: Envelope, fault: str, *, together: bool
) -> None:
    script = [*ehlo(extension), *BYE]
    async with ScriptedPeer(scripts=[script], pipelining=together) as peer:
        evidence = await hand_over_once(peer, one)
    assert evidence == Evidence(stage="mail", handed_over=False, answered=False, fault=fault)
    assert said(peer) == [b"EHLO sender.example\r\n", b"QUIT\r\n"]
    assert peer.failures == []


@pytest.mark.parametrize("pipelining", ["off", "auto"])
async def test_a_hidden_envelope_stays_part_of_the_message_even_for_a_lenient_peer(
    pipelining: str, tmp_path: Path
) -> None:
    hidden = b"MAIL FROM:<a@evil.example>\nRCPT TO:<b@evil.example>\nDATA\nx\n.\n"
    journal = tmp_path / "accepted.jsonl"
    async with CaptureServer(journal=journal, strict=False, fsync=False) as server:
        for end in (b"\n.\n", b"\r.\r", b"\n.\r\n", b"\r\n.\n", b"\r\n.\r\n", b"\r\n.\r"):
            one = envelope(message=MESSAGE + end + hidden)
            evidence = await hand_over_once(server, one, pipelining=pipelining)
            assert judge(evidence).outcome is Outcome.ACCEPTED
        assert server.unexpected == []
    accepted = read_journal(journal)
    assert len(accepted) == 6
    assert {entry.rcpt for entry in accepted} == {(PLEASANT,)}
