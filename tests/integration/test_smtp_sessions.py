"""Sessions: opened under TLS or not at all, kept while they are good, and closed without a trace."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest
import uvloop

from raw_smtp import wait_until
from sendledger.plugin import Evidence, Outcome, Scope, Secret, SessionRefused
from sendledger_sandbox import CaptureServer, Credentials
from sendledger_smtp import SmtpChannel, sendledger_channel
from smtp_kit import (
    AT_DOT,
    AT_RCPT,
    BYE,
    GREETED,
    HUSH,
    PROMPT,
    Steps,
    channel_for,
    envelope,
    hand_over,
    hand_over_once,
    judge,
    settings_for,
)
from smtp_peer import ScriptedPeer, TlsContexts, make_tls

ACCEPTED: Mapping[str, Any] = {"send": "250 2.0.0 Ok: queued as 4XQ2yz0abc\r\n"}
NEXT: Steps = [
    {"expect": "MAIL FROM"},
    {"send": "250 ok\r\n"},
    {"expect": "RCPT TO"},
    {"send": "250 ok\r\n"},
    {"expect": "DATA"},
    {"send": "354 go\r\n"},
    {"expect_data": True},
    ACCEPTED,
]
LOGIN = {"username": "school", "password": Secret("hunter2")}


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsContexts:
    return make_tls(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "accepted.jsonl"


def secure(server: CaptureServer, tls: TlsContexts, kind: str, **changes: Any) -> SmtpChannel:
    settings = settings_for(server, tls=kind, ca_file=str(tls.certificate), **changes)
    channel = sendledger_channel("email", settings)
    assert isinstance(channel, SmtpChannel)
    return channel


async def outcome_of(channel: SmtpChannel) -> Outcome:
    return judge(await hand_over(channel, envelope())).outcome


async def refused(channel: SmtpChannel) -> Evidence:
    with pytest.raises(SessionRefused) as caught:
        async with channel.sendledger_session():
            pass
    await channel.aclose()
    assert caught.value.__cause__ is None
    assert "hunter2" not in repr(caught.value)
    return caught.value.evidence


# --- opening ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["starttls", "implicit"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_session_is_encrypted_and_logged_in_before_it_is_lent(
    kind: str, host: str, tls: TlsContexts, journal: Path
) -> None:
    account = Credentials(user="school", password="hunter2")
    async with CaptureServer(
        journal=journal, tls=tls.server, implicit_tls=kind == "implicit", credentials=account
    ) as server:
        channel = secure(server, tls, kind, host=host, **LOGIN)
        assert [await outcome_of(channel) for _ in range(3)] == [Outcome.ACCEPTED] * 3
        assert server.connections.total == server.auth_tries == 1
        await channel.aclose()
        await wait_until(lambda: server.connections.open == 0)
        assert server.unexpected == []


def test_sessions_work_under_uvloop_too(tls: TlsContexts, journal: Path) -> None:
    async def submit() -> list[Outcome]:
        async with CaptureServer(journal=journal, tls=tls.server) as server:
            channel = secure(server, tls, "starttls")
            outcomes = [await outcome_of(channel) for _ in range(2)]
            cut = [*GREETED, {"expect": "MAIL FROM"}, {"close": True}]
            async with ScriptedPeer(scripts=[cut]) as peer:
                outcomes.append(judge(await hand_over_once(peer, envelope())).outcome)
            await channel.aclose()
            return outcomes

    assert uvloop.run(submit()) == [Outcome.ACCEPTED, Outcome.ACCEPTED, Outcome.TRANSIENT]


async def test_without_starttls_nothing_is_said_in_clear(tls: TlsContexts) -> None:
    async with ScriptedPeer(
        scripts=[[*GREETED, {"serve_until_quit": {"forbid": ["AUTH", "MAIL"]}}]]
    ) as peer:
        settings = settings_for(peer, tls="starttls", ca_file=str(tls.certificate), **LOGIN)
        evidence = await refused(SmtpChannel(settings, [tls.client]))
    assert evidence == Evidence(
        stage="tls", handed_over=False, answered=False, fault="starttls-missing"
    )
    assert judge(evidence).configuration_fault
    assert peer.failures == []


STARTTLS_OFFERED: Steps = [
    {"send": "220 relay.example\r\n"},
    {"expect": "EHLO"},
    {"send": "250-relay.example\r\n250 STARTTLS\r\n"},
    {"expect": "STARTTLS"},
]


async def test_what_was_said_before_tls_counts_for_nothing(tls: TlsContexts) -> None:
    injected = "220 go\r\n250-evil.example\r\n250 SIZE 1\r\n"
    steps = [*STARTTLS_OFFERED, {"send": injected}, {"start_tls": "now"}, *GREETED[1:], *NEXT, *BYE]
    async with ScriptedPeer(scripts=[steps], tls_context=tls.server) as peer:
        settings = settings_for(peer, tls="starttls", ca_file=str(tls.certificate))
        channel = SmtpChannel(settings, [tls.client])
        evidence = await hand_over(channel, envelope())
        await channel.aclose()
    # Believing the injected SIZE would have ended it before MAIL.
    assert judge(evidence).outcome is Outcome.ACCEPTED
    assert peer.failures == []


async def test_a_certificate_nobody_vouches_for_ends_the_session(
    tls: TlsContexts, journal: Path, tmp_path: Path
) -> None:
    other = make_tls(tmp_path)
    for kind in ("starttls", "implicit"):
        async with CaptureServer(
            journal=journal, tls=other.server, implicit_tls=kind == "implicit"
        ) as server:
            evidence = await refused(secure(server, tls, kind))
            await wait_until(lambda: server.connections.open == 0)
        assert (evidence.stage, evidence.fault) == ("tls", "tls")
        assert judge(evidence).outcome is Outcome.TRANSIENT


async def test_a_handshake_that_never_ends_is_cut(tls: TlsContexts) -> None:
    patience = PROMPT | {"greeting": "200ms"}
    async with ScriptedPeer(scripts=[[HUSH]]) as peer:
        settings = settings_for(peer, tls="implicit", timeouts=patience)
        evidence = await refused(SmtpChannel(settings, [tls.client]))
    assert (evidence.answered, evidence.fault) == (False, "timeout")
    assert judge(evidence).scope is Scope.CHANNEL


async def test_a_session_that_says_more_than_it_was_asked_is_not_taken_over() -> None:
    hello = {"send": "250 relay.example\r\n421 4.3.2 leaving\r\n"}
    async with ScriptedPeer(scripts=[[*GREETED[:2], hello, HUSH]]) as peer:
        evidence = await refused(channel_for(peer))
    assert (evidence.stage, evidence.fault) == ("ehlo", "protocol")


async def test_starttls_refused_is_literal_evidence(tls: TlsContexts) -> None:
    refusal = {"send": "454 4.7.0 TLS not available\r\n"}
    async with ScriptedPeer(scripts=[[*STARTTLS_OFFERED, refusal, HUSH]]) as peer:
        evidence = await refused(SmtpChannel(settings_for(peer, tls="starttls"), [tls.client]))
    assert (evidence.stage, evidence.literal) == ("tls", b"454 4.7.0 TLS not available\r\n")
    assert judge(evidence).outcome is Outcome.TRANSIENT


AUTH_OFFERED: Steps = [
    {"send": "220 relay.example\r\n"},
    {"expect": "EHLO"},
    {"send": "250-relay.example\r\n250 AUTH CRAM-MD5 LOGIN PLAIN\r\n"},
]


async def test_a_refused_login_is_tried_once_and_never_by_another_mechanism() -> None:
    refusal = {"send": "535-5.7.8 no\r\n535 5.7.8 bad credentials\r\n"}
    steps = [*AUTH_OFFERED, {"expect": "AUTH PLAIN"}, refusal, {"expect": "QUIT"}]
    async with ScriptedPeer(scripts=[steps]) as peer:
        evidence = await refused(channel_for(peer, **LOGIN))
    assert evidence == Evidence(
        stage="auth",
        handed_over=False,
        answered=True,
        literal=b"535-5.7.8 no\r\n535 5.7.8 bad credentials\r\n",
        reply_code=535,
        enhanced_code="5.7.8",
    )
    assert judge(evidence).configuration_fault
    assert sum(octets.startswith(b"AUTH") for _, octets in peer.log[0]) == 1


@pytest.mark.parametrize(
    ("offered", "script"),
    [
        (
            "LOGIN",
            [{"expect": "AUTH LOGIN"}, {"send": "334 UGFzcw==\r\n"}, {"expect": "aHVudGVyMg=="}],
        ),
        (
            "CRAM-MD5",
            [{"expect": "AUTH CRAM-MD5"}, {"send": "334 PDFAeC50ZXN0Pg==\r\n"}, {"expect": ""}],
        ),
    ],
)
async def test_the_mechanism_is_one_the_server_offers(offered: str, script: list[Any]) -> None:
    hello = {"send": f"250-relay.example\r\n250 AUTH {offered}\r\n"}
    steps = [*AUTH_OFFERED[:2], hello, *script, {"send": "235 ok\r\n"}, *NEXT, *BYE]
    async with ScriptedPeer(scripts=[steps]) as peer:
        assert judge(await hand_over_once(peer, envelope(), **LOGIN)).outcome is Outcome.ACCEPTED
    assert peer.failures == []


async def test_credentials_without_a_common_mechanism_are_a_configuration_fault() -> None:
    async with ScriptedPeer(scripts=[[*GREETED, *BYE]]) as peer:
        evidence = await refused(channel_for(peer, **LOGIN))
    assert (evidence.stage, evidence.fault) == ("auth", "auth-missing")
    assert judge(evidence).configuration_fault


@pytest.mark.parametrize(
    ("steps", "stage", "fault"),
    [
        ([{"close": True}], "greeting", "closed"),
        ([HUSH], "greeting", "timeout"),
        ([{"send": "garbage\r\n"}, HUSH], "greeting", "protocol"),
        ([{"send": "250 odd\r\n"}, HUSH], "greeting", "protocol"),
        ([{"send": "220 hi\r\n"}, {"expect": "EHLO"}, {"close": True}], "ehlo", "closed"),
        ([{"send": "220 hi\r\n"}, {"expect": "EHLO"}, HUSH], "ehlo", "timeout"),
    ],
)
async def test_a_session_that_breaks_while_it_opens_is_the_channels_outage(
    steps: list[Any], stage: str, fault: str
) -> None:
    async with ScriptedPeer(scripts=[steps]) as peer:
        patience = PROMPT | {"greeting": "1s", "command": "1s"}
        evidence = await refused(channel_for(peer, timeouts=patience))
    assert evidence == Evidence(stage=stage, handed_over=False, answered=False, fault=fault)
    assert (judge(evidence).outcome, judge(evidence).scope) == (Outcome.TRANSIENT, Scope.CHANNEL)


async def test_a_greeting_in_any_charset_is_kept_byte_for_byte() -> None:
    async with ScriptedPeer(
        scripts=[[{"send_hex": b"554 5.7.1 \xd3\xc3\r\n".hex()}, HUSH]]
    ) as peer:
        evidence = await refused(channel_for(peer))
    assert evidence.literal == b"554 5.7.1 \xd3\xc3\r\n"


async def test_nobody_listening_is_a_refused_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings = settings_for(_Nowhere(port))
    evidence = await refused(SmtpChannel(settings))
    assert (evidence.stage, evidence.fault) == ("connect", "refused")


async def test_a_host_that_no_resolver_knows_is_evidence_of_that() -> None:
    settings = settings_for(_Nowhere(25), tls="starttls", host="no-such-host.invalid", timeouts={})
    evidence = await refused(SmtpChannel(settings))
    assert (evidence.stage, evidence.fault) == ("connect", "dns")


class _Nowhere:
    def __init__(self, port: int) -> None:
        self.host, self.port = "127.0.0.1", port


# --- keeping ------------------------------------------------------------------------------------------


async def test_a_session_is_used_again_after_a_refusal_and_reset_first() -> None:
    refusal = {"send": "550 5.1.1 unknown\r\n"}
    steps = [*AT_RCPT, refusal, {"expect": "RSET"}, {"send": "250 ok\r\n"}, *NEXT, *BYE]
    async with ScriptedPeer(scripts=[steps]) as peer:
        channel = channel_for(peer)
        assert [await outcome_of(channel) for _ in range(2)] == [
            Outcome.PERMANENT,
            Outcome.ACCEPTED,
        ]
        await channel.aclose()
    assert (peer.connections, peer.failures) == (1, [])


@pytest.mark.parametrize(
    "end",
    [
        {"send": "421 leaving\r\n"},
        {"send": "554 no\r\n"},
        {"send": "250 ok\r\n250 more\r\n"},
        {"send": "garbage\r\n"},
        {"close": True},
    ],
)
async def test_a_session_that_fails_its_test_is_replaced_before_it_is_lent(
    end: Mapping[str, Any],
) -> None:
    first = [*AT_DOT, ACCEPTED, {"expect": "RSET"}, end, HUSH]
    async with ScriptedPeer(scripts=[first, [*GREETED, *NEXT, *BYE]]) as peer:
        channel = channel_for(peer, revalidate_after="1ms")
        assert await outcome_of(channel) is Outcome.ACCEPTED
        kept_at = asyncio.get_running_loop().time()
        await wait_until(lambda: asyncio.get_running_loop().time() > kept_at + 0.001)
        assert await outcome_of(channel) is Outcome.ACCEPTED
        await channel.aclose()
    assert peer.connections == 2


@pytest.mark.parametrize(
    "end", [[{"send": "421 4.4.2 idle\r\n"}, {"close": True}], [{"close": True}]]
)
async def test_a_kept_session_found_dead_at_mail_is_replaced_in_the_same_attempt(
    end: list[Any],
) -> None:
    first: Steps = [*AT_DOT, ACCEPTED, {"expect": "MAIL FROM"}, *end]
    async with ScriptedPeer(scripts=[first, [*GREETED, *NEXT, *BYE]]) as peer:
        channel = channel_for(peer)
        assert [await outcome_of(channel) for _ in range(2)] == [Outcome.ACCEPTED] * 2
        await channel.aclose()
    assert (peer.connections, peer.failures) == (2, [])


async def test_a_dead_session_is_replaced_once_only() -> None:
    gone: Steps = [{"expect": "MAIL FROM"}, {"send": "421 4.3.2 busy\r\n"}, {"close": True}]
    async with ScriptedPeer(scripts=[[*AT_DOT, ACCEPTED, *gone], [*GREETED, *gone]]) as peer:
        channel = channel_for(peer)
        assert await outcome_of(channel) is Outcome.ACCEPTED
        evidence = await hand_over(channel, envelope())
        await channel.aclose()
    assert (evidence.stage, evidence.reply_code) == ("mail", 421)
    assert peer.connections == 2


async def test_a_relay_that_went_away_is_the_evidence_when_no_other_session_is_to_be_had() -> None:
    first = [*AT_DOT, ACCEPTED, {"expect": "MAIL FROM"}, {"close": True}]
    async with ScriptedPeer(
        scripts=[first, [{"send": "421 4.3.2 busy\r\n"}, {"close": True}]]
    ) as peer:
        channel = channel_for(peer)
        assert await outcome_of(channel) is Outcome.ACCEPTED
        evidence = await hand_over(channel, envelope())
        await channel.aclose()
    assert (evidence.stage, evidence.handed_over) == ("greeting", False)
    assert judge(evidence).scope is Scope.CHANNEL


async def test_a_session_is_retired_after_so_many_messages(journal: Path) -> None:
    async with CaptureServer(journal=journal) as server:
        channel = channel_for(server, messages_per_session_max="2")
        for _ in range(5):
            assert await outcome_of(channel) is Outcome.ACCEPTED
        await channel.aclose()
        assert server.connections.total == 3
        assert server.unexpected == []


async def test_an_idle_session_is_left_in_time(journal: Path) -> None:
    async with CaptureServer(journal=journal) as server:
        channel = channel_for(server, idle_max="20ms")
        assert await outcome_of(channel) is Outcome.ACCEPTED
        await wait_until(lambda: server.connections.open == 0)
        assert await outcome_of(channel) is Outcome.ACCEPTED
        await channel.aclose()
        assert server.unexpected == []


async def test_there_are_never_more_sessions_than_allowed_and_no_waiter_leaks(
    journal: Path,
) -> None:
    async with CaptureServer(journal=journal) as server:
        channel = channel_for(server, sessions_max="2")
        async with channel.sendledger_session(), channel.sendledger_session():
            waiting = [asyncio.create_task(outcome_of(channel)) for _ in range(6)]
            await wait_until(lambda: server.connections.open == 2)
            for task in waiting[:3]:
                task.cancel()
        settled = await asyncio.gather(*waiting, return_exceptions=True)
        assert settled[3:] == [Outcome.ACCEPTED] * 3
        assert all(isinstance(end, asyncio.CancelledError) for end in settled[:3])
        assert server.connections.peak == 2
        await channel.aclose()


@pytest.mark.parametrize("turns", range(8))
async def test_a_session_cancelled_at_any_moment_of_its_opening_gives_its_place_back(
    turns: int,
) -> None:
    async with ScriptedPeer(scripts=[[HUSH], [*AT_DOT, ACCEPTED, *BYE]]) as peer:
        channel = channel_for(peer, sessions_max="1")
        opening = asyncio.create_task(outcome_of(channel))
        await wait_until(lambda: peer.connections == 1)
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert await outcome_of(channel) is Outcome.ACCEPTED
        await channel.aclose()


async def test_closing_says_goodbye_and_waits_for_nobody_long() -> None:
    mute = [*AT_DOT, ACCEPTED, {"expect": "QUIT"}, HUSH]
    async with ScriptedPeer(scripts=[mute]) as peer:
        channel = channel_for(peer)
        assert await outcome_of(channel) is Outcome.ACCEPTED
        async with asyncio.timeout(10):
            await channel.aclose()
        assert peer.log[0][-1] == ("C", b"QUIT\r\n")
        assert (await refused(channel)).fault == "closed"


@pytest.mark.parametrize(
    "noise", [[{"send": "421 4.4.2 idle\r\n"}], [{"send": "x" * 300_000}], [{"close": True}]]
)
async def test_a_session_that_spoke_or_died_while_idle_is_dropped_without_a_word(
    noise: list[Any],
) -> None:
    gone = [{"serve_until_quit": {"forbid": ["QUIT"]}}]
    steps = [*AT_DOT, ACCEPTED, {"after_idle": True}, *noise, *gone]
    async with ScriptedPeer(scripts=[steps], idle_s=0.01) as peer:
        channel = channel_for(peer)
        assert await outcome_of(channel) is Outcome.ACCEPTED
        (kept,) = channel._pool._idle
        await wait_until(lambda: not kept.wire.quiet)
        await channel.aclose()
    assert not any("forbidden" in mismatch for _, mismatch in peer.failures)
    assert kept.wire.gone.done()


async def test_a_session_lent_while_the_channel_closes_leaves_when_it_is_given_back(
    journal: Path,
) -> None:
    async with CaptureServer(journal=journal) as server:
        channel = channel_for(server)
        async with channel.sendledger_session() as session:
            await channel.aclose()
            evidence = await channel.sendledger_submit(session, envelope())
        assert judge(evidence).outcome is Outcome.ACCEPTED
        await wait_until(lambda: server.connections.open == 0)
        assert server.unexpected == []


async def test_an_error_on_leaving_a_session_is_nothing() -> None:
    async with ScriptedPeer(scripts=[[*AT_DOT, ACCEPTED, {"reset": True}]]) as peer:
        channel = channel_for(peer)
        assert await outcome_of(channel) is Outcome.ACCEPTED
        await channel.aclose()


async def test_many_submissions_share_few_sessions(journal: Path) -> None:
    async with CaptureServer(journal=journal, fsync=False) as server:
        channel = channel_for(server, sessions_max="4")
        together: list[Coroutine[Any, Any, Outcome]] = [outcome_of(channel) for _ in range(100)]
        assert set(await asyncio.gather(*together)) == {Outcome.ACCEPTED}
        assert (server.accepted, server.connections.peak) == (100, 4)
        assert server.connections.total == 4
        await channel.aclose()
