"""What the sandbox takes and refuses on the wire, byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from raw_smtp import RawSmtp
from sendledger_sandbox import CaptureServer, read_journal

TRANSACTION = b"MAIL FROM:<b@sender.example>\r\nRCPT TO:<pat@example.test>\r\nDATA\r\n"
SMUGGLED = (
    b"Subject: one\r\n\r\nhello\n.\nMAIL FROM:<x@sender.example>\r\n"
    b"RCPT TO:<victim@example.test>\r\nDATA\r\nSubject: two\r\n\r\nsmuggled\r\n.\r\n"
)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[CaptureServer]:
    async with CaptureServer(journal=tmp_path / "journal", size_max_bytes=100_000) as server:
        yield server


async def test_the_extensions_are_announced(server: CaptureServer) -> None:
    async with RawSmtp(server.port, ehlo=False) as client:
        assert client.greeting.startswith(b"220 ")
        lines = (await client.say("EHLO client.example.test")).splitlines()
    assert [line[4:] for line in lines[1:]] == [
        *(b"PIPELINING", b"SIZE 100000", b"8BITMIME", b"ENHANCEDSTATUSCODES", b"DSN", b"SMTPUTF8")
    ]


async def test_the_journal_says_what_was_accepted(server: CaptureServer) -> None:
    message = b"Message-ID: <1@sender.example>\r\nSendledger-Token: tok\r\n\r\n..dotted\r\n"
    async with RawSmtp(server.port) as client:
        await client.say("MAIL FROM:<b+tok@sender.example> ENVID=to+2Bk RET=HDRS")
        await client.say("RCPT TO:<pat@example.test> NOTIFY=FAILURE")
        await client.say("RCPT TO:<kim@example.test>")
        await client.say("DATA")
        await client.write(message + b".\r\n")
        assert await client.reply() == b"250 2.0.0 Ok: queued as 000001\r\n"
    (accepted,) = read_journal(server.journal)
    received = message.replace(b"..dotted", b".dotted")
    assert accepted.mail_from == "b+tok@sender.example"
    assert accepted.rcpt == ("pat@example.test", "kim@example.test")
    assert (accepted.envid, accepted.token, accepted.message_id) == (
        "to+k",
        "tok",
        "<1@sender.example>",
    )
    assert (accepted.bytes, accepted.sha256) == (
        len(received),
        hashlib.sha256(received).hexdigest(),
    )
    assert (server.accepted, server.unexpected) == (1, [])


async def test_an_empty_message_ends_with_its_first_dot(server: CaptureServer) -> None:
    async with RawSmtp(server.port) as client:
        assert (await client.send("pat@example.test", b"")).startswith(b"250")
    assert read_journal(server.journal)[0].bytes == 0


async def test_a_message_in_single_bytes_is_the_same_message(server: CaptureServer) -> None:
    message = b"Subject: t\r\n\r\n..\r\n.. \r\n"
    async with RawSmtp(server.port) as client:
        await client.begin("pat@example.test")
        for octet in message + b".\r\n":
            await client.write(bytes([octet]))
        assert (await client.reply()).startswith(b"250")
    assert read_journal(server.journal)[0].bytes == len(message) - 2


async def test_a_pipelined_group_is_answered_in_order(server: CaptureServer) -> None:
    async with RawSmtp(server.port) as client:
        await client.write(TRANSACTION)
        assert [(await client.reply())[:3] for _ in range(3)] == [b"250", b"250", b"354"]
        await client.write(b"Subject: t\r\n\r\nhello\r\n.\r\n" + TRANSACTION)
        assert [(await client.reply())[:3] for _ in range(4)] == [b"250", b"250", b"250", b"354"]
    assert server.unexpected == []


async def test_a_pipelined_group_whose_recipient_is_refused_is_no_violation(
    server: CaptureServer,
) -> None:
    async with RawSmtp(server.port) as client:
        await client.write(TRANSACTION.replace(b"pat@", b"pat+rcpt-550-5.1.1@"))
        replies = [await client.reply() for _ in range(3)]
        assert [reply[:9] for reply in replies] == [b"250 2.1.0", b"550 5.1.1", b"554 5.5.1"]
        assert (await client.say("RSET")).startswith(b"250")
        assert (await client.send("pat@example.test")).startswith(b"250")
    assert server.unexpected == []


@pytest.mark.parametrize("command", [b"NOOP\n", b"NOOP\r\r\n", b"NO\rOP\r\n"])
async def test_a_command_line_with_a_bare_cr_or_lf_ends_the_session(
    server: CaptureServer, command: bytes
) -> None:
    async with RawSmtp(server.port) as client:
        await client.write(command)
        assert (await client.reply()).startswith(b"500 5.5.2 bare")
        assert await client.reply() == b""
    assert len(server.unexpected) == 1


@pytest.mark.parametrize(
    ("message", "refusal"),
    [
        (b"Subject: t\r\n\r\na\nb\r\n", b"554 5.6.0 bare"),
        (b"Subject: t\r\n\r\na\rb\r\n", b"554 5.6.0 bare"),
        (b"Subject: t\r\n\r\n.a\r\n", b"554 5.6.0 line begins"),
        (b"Subject: t\r\n\r\n" + b"y" * 999 + b"\r\n", b"554 5.6.0 line longer"),
        ("Subject: grüße\r\n".encode(), b"554 5.6.1"),
    ],
)
async def test_a_message_against_the_rules_is_refused_and_the_session_goes_on(
    server: CaptureServer, message: bytes, refusal: bytes
) -> None:
    async with RawSmtp(server.port) as client:
        assert (await client.send("pat@example.test", message)).startswith(refusal)
        assert (await client.send("pat@example.test")).startswith(b"250")
    assert [found.n for found in read_journal(server.journal)] == [1]
    assert len(server.unexpected) == 1


async def test_a_smuggled_message_is_refused_with_its_carrier(server: CaptureServer) -> None:
    async with RawSmtp(server.port) as client:
        await client.begin("pat@example.test")
        await client.write(SMUGGLED)
        assert (await client.reply()).startswith(b"554 5.6.0 bare")
    assert read_journal(server.journal) == []


@pytest.mark.parametrize("end", [b"\n.\n", b"\r\n.\n", b"\n.\r\n"])
async def test_a_lenient_server_lets_a_message_be_smuggled(tmp_path: Path, end: bytes) -> None:
    async with CaptureServer(journal=tmp_path / "journal", strict=False) as server:
        async with RawSmtp(server.port) as client:
            await client.begin("pat@example.test")
            await client.write(SMUGGLED.replace(b"\n.\n", end))
            assert [(await client.reply())[:3] for _ in range(5)] == [
                b"250",
                b"250",
                b"250",
                b"354",
                b"250",
            ]
        rcpt = [found.rcpt for found in read_journal(server.journal)]
    assert rcpt == [("pat@example.test",), ("victim@example.test",)]


async def test_a_message_over_the_size_is_refused_when_declared_and_when_not(
    server: CaptureServer,
) -> None:
    async with RawSmtp(server.port) as client:
        declared = await client.say("MAIL FROM:<b@sender.example> SIZE=100001")
        assert declared.startswith(b"552 5.3.4")
        for size in (100_010, 1_000_000):
            assert (
                await client.send("pat@example.test", b"y" * 70 + b"\r\n" + b"\r\n" * (size // 2))
            ) == (b"552 5.3.4 message too big\r\n")
        assert (await client.send("pat@example.test")).startswith(b"250")
    assert server.accepted == 1


async def test_a_command_line_over_the_limit_ends_the_session(server: CaptureServer) -> None:
    async with RawSmtp(server.port) as client:
        assert (await client.say("NOOP " + "y" * 3000)).startswith(b"500 5.5.2 line too long")
        assert await client.reply() == b""


async def test_a_message_sent_before_the_354_ends_the_session(server: CaptureServer) -> None:
    async with RawSmtp(server.port) as client:
        await client.write(TRANSACTION + b"Subject: t\r\n\r\nhello\r\n.\r\n")
        assert [(await client.reply())[:3] for _ in range(3)] == [b"250", b"250", b"521"]
        assert await client.reply() == b""
    assert server.accepted == 0


@pytest.mark.parametrize(
    ("commands", "code"),
    [
        (["MAIL FROM:<b@sender.example>", "MAIL FROM:<b@sender.example>"], b"503 5.5.1"),
        (["RCPT TO:<pat@example.test>"], b"503 5.5.1"),
        (["DATA"], b"503 5.5.1"),
        (["MAIL FROM:<b@sender.example>", "DATA"], b"503 5.5.1"),
        (["MAIL FROM:<b@sender.example> X=1"], b"555 5.5.4"),
        (["EHLO"], b"501 5.5.4"),
        (["TURN"], b"500 5.5.1"),
        (["STARTTLS"], b"502 5.5.1"),
        (["AUTH PLAIN"], b"502 5.5.1"),
    ],
)
async def test_a_command_out_of_place_is_refused_and_noted(
    server: CaptureServer, commands: list[str], code: bytes
) -> None:
    async with RawSmtp(server.port) as client:
        reply = [await client.say(command) for command in commands][-1]
    assert reply.startswith(code)
    assert len(server.unexpected) == 1


async def test_mail_before_a_greeting_is_refused(server: CaptureServer) -> None:
    async with RawSmtp(server.port, ehlo=False) as client:
        assert (await client.say("MAIL FROM:<b@sender.example>")).startswith(b"503 5.5.1")


async def test_the_small_commands_are_answered(server: CaptureServer) -> None:
    async with RawSmtp(server.port, ehlo=False) as client:
        commands = ["HELO client.example.test", "NOOP", "VRFY pat", "RSET", "QUIT"]
        replies = [(await client.say(command))[:3] for command in commands]
        assert replies == [b"250", b"250", b"252", b"250", b"221"]
        assert await client.reply() == b""
    assert server.unexpected == []


async def test_a_message_cut_short_is_not_accepted(server: CaptureServer) -> None:
    async with RawSmtp(server.port) as client:
        await client.begin("pat@example.test")
        await client.write(b"Subject: t\r\n\r\nhello\r\n")
    await server.close()
    assert read_journal(server.journal) == []


async def test_an_idle_peer_is_told_and_let_go(tmp_path: Path) -> None:
    async with (
        CaptureServer(journal=tmp_path / "journal", idle_s=0.05) as server,
        RawSmtp(server.port) as client,
    ):
        assert (await client.reply()).startswith(b"421 4.4.2")
        assert await client.reply() == b""
