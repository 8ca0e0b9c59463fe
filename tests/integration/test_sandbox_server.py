"""The capture server as tests use it: observed, taken down, under TLS, and spoken to by real clients."""

from __future__ import annotations

import asyncio
import base64
import smtplib
from email.message import EmailMessage
from pathlib import Path

import aiosmtplib
import pytest

from raw_smtp import RawSmtp, wait_until
from sendledger_sandbox import CaptureServer, ConnectionInfo, Credentials, Phase, read_journal
from smtp_peer import TlsContexts, make_tls

CREDENTIALS = Credentials(user="reports", password="correct horse")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsContexts:
    return make_tls(tmp_path_factory.mktemp("tls"))


def message() -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "b@sender.example", "pat@example.test", "t"
    message.set_content("hello\n.dotted\n")
    return message


async def test_every_boundary_is_observed_in_order_before_it_is_answered(tmp_path: Path) -> None:
    seen: list[tuple[Phase, int, int]] = []

    def observe(phase: Phase, count: int, info: ConnectionInfo) -> None:
        seen.append((phase, count, len(read_journal(tmp_path / "journal"))))
        assert info.number == 1

    async with (
        CaptureServer(journal=tmp_path / "journal", observer=observe) as server,
        RawSmtp(server.port) as client,
    ):
        await client.send("pat@example.test")
        await client.send("kim@example.test")
        await client.say("QUIT")
    one = [Phase.MAIL, Phase.RCPT, Phase.DATA, Phase.BODY, Phase.DOT, Phase.ACCEPTED, Phase.REPLIED]
    assert [phase for phase, _, _ in seen] == [
        *(Phase.CONNECT, Phase.GREETING, Phase.EHLO),
        *(one + one),
        Phase.QUIT,
    ]
    journalled = {(phase, count): entries for phase, count, entries in seen}
    assert (journalled[Phase.DOT, 1], journalled[Phase.ACCEPTED, 1]) == (0, 1)
    assert (journalled[Phase.DOT, 2], journalled[Phase.ACCEPTED, 2]) == (1, 2)


async def test_the_server_waits_for_an_observer_and_then_goes_on(tmp_path: Path) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def observe(phase: Phase, _count: int, info: ConnectionInfo) -> None:
        if phase is Phase.DOT:
            assert info.rcpt == ("pat@example.test",)
            reached.set()
            await go_on.wait()

    async with CaptureServer(journal=tmp_path / "journal", observer=observe) as server:
        async with RawSmtp(server.port) as client, asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(client.send("pat@example.test"))
            await reached.wait()
            assert (server.accepted, sending.done()) == (0, False)
            go_on.set()
        assert sending.result().startswith(b"250")


async def test_the_body_is_observed_while_its_end_has_not_come(tmp_path: Path) -> None:
    reached = asyncio.Event()

    def observe(phase: Phase, _count: int, _info: ConnectionInfo) -> None:
        if phase is Phase.BODY:
            reached.set()

    async with (
        CaptureServer(journal=tmp_path / "journal", observer=observe) as server,
        RawSmtp(server.port) as client,
    ):
        await client.begin("pat@example.test")
        await client.write(b"S")
        await asyncio.wait_for(reached.wait(), 10)
        await client.write(b"ubject: t\r\n\r\nhello\r\n.\r\n")
        assert (await client.reply()).startswith(b"250")


async def test_a_message_is_accepted_although_its_sender_died_at_the_final_dot(
    tmp_path: Path,
) -> None:
    client_gone = asyncio.Event()

    async def observe(phase: Phase, _count: int, _info: ConnectionInfo) -> None:
        if phase is Phase.DOT:
            await client_gone.wait()

    async with CaptureServer(journal=tmp_path / "journal", observer=observe) as server:
        async with RawSmtp(server.port) as client:
            await client.begin("pat@example.test")
            await client.write(b"Subject: t\r\n\r\nhello\r\n.\r\n")
        client_gone.set()
        await wait_until(lambda: server.accepted == 1)
    assert len(read_journal(tmp_path / "journal")) == 1


async def test_what_an_observer_raises_is_raised_at_the_end(tmp_path: Path) -> None:
    def observe(phase: Phase, _count: int, _info: ConnectionInfo) -> None:
        assert phase is not Phase.MAIL, "seen MAIL"

    async def run() -> None:
        async with (
            CaptureServer(journal=tmp_path / "journal", observer=observe) as server,
            RawSmtp(server.port) as client,
        ):
            assert await client.send("pat@example.test") == b""

    with pytest.raises(AssertionError, match="seen MAIL"):
        await run()


async def test_a_server_taken_down_refuses_connections_and_comes_back_on_its_port(
    tmp_path: Path,
) -> None:
    async with CaptureServer(journal=tmp_path / "journal") as server:
        port = server.port
        async with RawSmtp(port) as client:
            await client.send("pat@example.test")
            await server.close()
            assert await client.reply() == b""
        with pytest.raises(OSError, match="Connect call failed"):
            await asyncio.open_connection("127.0.0.1", port)
        await server.reopen()
        assert server.port == port
        async with RawSmtp(port) as client:
            assert await client.send("kim@example.test") == b"250 2.0.0 Ok: queued as 000002\r\n"


async def test_a_stalled_message_is_journalled_and_closing_does_not_wait_for_its_answer(
    tmp_path: Path,
) -> None:
    async with (
        CaptureServer(journal=tmp_path / "journal") as server,
        RawSmtp(server.port) as client,
    ):
        await client.begin("pat+stall-3600@example.test")
        await client.write(b"Subject: t\r\n\r\nhello\r\n.\r\n")
        await wait_until(lambda: server.accepted == 1)
        assert len(read_journal(server.journal)) == 1
        await server.close()
        assert await client.reply() == b""


async def test_new_connections_can_be_refused_and_taken_again(tmp_path: Path) -> None:
    async with CaptureServer(journal=tmp_path / "journal", refuse_new=True) as server:
        async with RawSmtp(server.port, ehlo=False) as client:
            assert client.greeting.startswith(b"421 4.3.2")
            assert await client.reply() == b""
        server.refuse_new = False
        async with RawSmtp(server.port) as client:
            assert (await client.send("pat@example.test")).startswith(b"250")


async def test_the_greeting_can_be_replaced(tmp_path: Path) -> None:
    async with (
        CaptureServer(journal=tmp_path / "journal", greeting=b"554 5.3.2 no service\r\n") as server,
        RawSmtp(server.port, ehlo=False) as client,
    ):
        assert client.greeting == b"554 5.3.2 no service\r\n"
        assert await client.reply() == b""


async def test_connections_are_counted(tmp_path: Path) -> None:
    async with CaptureServer(journal=tmp_path / "journal") as server:
        async with RawSmtp(server.port), RawSmtp(server.port):
            assert (server.connections.open, server.connections.peak, server.connections.total) == (
                2,
                2,
                2,
            )
        async with RawSmtp(server.port):
            await wait_until(lambda: server.connections.open == 1)
        assert (server.connections.peak, server.connections.total) == (2, 3)


async def test_a_journal_that_cannot_be_written_defers_the_message(tmp_path: Path) -> None:
    async with CaptureServer(journal=tmp_path / "journal", keep=tmp_path / "kept") as server:
        (tmp_path / "kept" / "000001.eml").mkdir()
        async with RawSmtp(server.port) as client:
            assert (await client.send("pat@example.test")).startswith(b"451 4.3.0")
            (tmp_path / "kept" / "000001.eml").rmdir()
            assert await client.send("pat@example.test") == b"250 2.0.0 Ok: queued as 000001\r\n"
    assert len(read_journal(tmp_path / "journal")) == 1


async def test_many_connections_at_once_are_all_journalled(tmp_path: Path) -> None:
    async def send(port: int, number: int) -> None:
        async with RawSmtp(port) as client:
            for i in range(10):
                assert (await client.send(f"p{number}.{i}@example.test")).startswith(b"250")

    async with CaptureServer(journal=tmp_path / "journal") as server:
        await asyncio.gather(*(send(server.port, number) for number in range(20)))
    entries = read_journal(tmp_path / "journal")
    assert [found.n for found in entries] == list(range(1, 201))
    assert len({found.rcpt for found in entries}) == 200


# --- TLS and AUTH --------------------------------------------------------------------------------


async def test_starttls_forgets_the_clear_text_session_and_is_not_offered_twice(
    tmp_path: Path, tls: TlsContexts
) -> None:
    async with (
        CaptureServer(journal=tmp_path / "journal", tls=tls.server) as server,
        RawSmtp(server.port) as client,
    ):
        assert (await client.say("STARTTLS")).startswith(b"220 2.0.0")
        await client.start_tls(tls.client)
        assert (await client.say("MAIL FROM:<b@sender.example>")).startswith(b"503")
        assert b"STARTTLS" not in await client.say("EHLO client.example.test")
        assert (await client.send("pat@example.test", b"y\r\n" * 100_000)).startswith(b"250")


async def test_input_injected_behind_starttls_ends_the_session(
    tmp_path: Path, tls: TlsContexts
) -> None:
    async with (
        CaptureServer(journal=tmp_path / "journal", tls=tls.server) as server,
        RawSmtp(server.port) as client,
    ):
        await client.write(b"STARTTLS\r\nEHLO injected.example.test\r\n")
        assert (await client.reply()).startswith(b"501 5.5.4")
        assert await client.reply() == b""


async def test_implicit_tls_speaks_tls_from_the_first_byte(
    tmp_path: Path, tls: TlsContexts
) -> None:
    async with (
        CaptureServer(journal=tmp_path / "journal", tls=tls.server, implicit_tls=True) as server,
        RawSmtp(server.port, tls=tls.client) as client,
    ):
        assert (await client.send("pat@example.test")).startswith(b"250")


def test_implicit_tls_without_a_context_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a tls context"):
        CaptureServer(journal=tmp_path / "journal", implicit_tls=True)


async def test_mail_needs_auth_where_credentials_are_set(tmp_path: Path) -> None:
    async with (
        CaptureServer(journal=tmp_path / "journal", credentials=CREDENTIALS) as server,
        RawSmtp(server.port) as client,
    ):
        assert (await client.send("pat@example.test")).startswith(b"530 5.7.0")
        assert (await client.say(f"AUTH PLAIN {plain('reports', 'wrong')}")).startswith(
            b"535 5.7.8"
        )
        assert (await client.say(f"AUTH PLAIN {plain('reports', 'correct horse')}")).startswith(
            b"235"
        )
        assert (await client.send("pat@example.test")).startswith(b"250")
    assert server.auth_tries == 2


async def test_auth_login_and_plain_ask_for_what_is_missing(tmp_path: Path) -> None:
    user, password = (base64.b64encode(text).decode() for text in (b"reports", b"correct horse"))
    async with CaptureServer(journal=tmp_path / "journal", credentials=CREDENTIALS) as server:
        async with RawSmtp(server.port) as client:
            for line, code in (("AUTH LOGIN", b"334"), (user, b"334"), (password, b"235")):
                assert (await client.say(line)).startswith(code)
        async with RawSmtp(server.port) as client:
            assert (await client.say("AUTH PLAIN")).startswith(b"334 ")
            assert (await client.say("*")).startswith(b"501 5.7.0")
            assert (await client.say("AUTH PLAIN %")).startswith(b"501 5.5.2")
            assert (await client.say("AUTH CRAM-MD5")).startswith(b"504 5.5.4")


def plain(user: str, password: str) -> str:
    return base64.b64encode(f"\0{user}\0{password}".encode()).decode()


def test_a_password_does_not_show() -> None:
    assert "correct horse" not in repr(CREDENTIALS)


# --- clients of others ---------------------------------------------------------------------------


async def test_smtplib_is_served(tmp_path: Path, tls: TlsContexts) -> None:
    def send(port: int) -> None:
        with smtplib.SMTP("localhost", port, timeout=10) as client:
            client.starttls(context=tls.client)
            client.login(CREDENTIALS.user, CREDENTIALS.password)
            assert client.send_message(message()) == {}

    journal = tmp_path / "journal"
    async with CaptureServer(journal=journal, tls=tls.server, credentials=CREDENTIALS) as server:
        await asyncio.to_thread(send, server.port)
    assert (len(read_journal(journal)), server.unexpected) == (1, [])


async def test_aiosmtplib_is_served(tmp_path: Path, tls: TlsContexts) -> None:
    journal = tmp_path / "journal"
    async with (
        CaptureServer(
            journal=journal, tls=tls.server, credentials=CREDENTIALS, keep=tmp_path / "kept"
        ) as server,
        aiosmtplib.SMTP(
            hostname="localhost",
            port=server.port,
            start_tls=True,
            tls_context=tls.client,
            username=CREDENTIALS.user,
            password=CREDENTIALS.password,
            timeout=10,
        ) as client,
    ):
        await client.send_message(message())
    assert (len(read_journal(journal)), server.unexpected) == (1, [])
    assert b"\r\n.dotted\r\n" in (tmp_path / "kept" / "000001.eml").read_bytes()
