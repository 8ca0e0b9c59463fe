"""What the standards ask of an SMTP client beside its transactions: TLS, AUTH, names, and how long to go on."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from raw_smtp import wait_until
from sendledger.content import compile_template
from sendledger.plugin import Addressee, Content, Evidence, Outcome, Scope, Secret, SessionRefused
from sendledger.settings.load import load_policy
from sendledger_sandbox import CaptureServer
from sendledger_smtp import SmtpChannel, sendledger_channel
from smtp_kit import (
    AT_DOT,
    BYE,
    EHLO,
    HUSH,
    ROOT,
    TOKEN,
    Steps,
    channel_for,
    envelope,
    hand_over_once,
    judge,
    settings_for,
)
from smtp_peer import ScriptedPeer, TlsContexts, make_tls

LOGIN = {"username": "school", "password": Secret("hunter2")}
AUTH_OFFERED: Steps = [
    {"send": "220 relay.example\r\n"},
    {"expect": "EHLO"},
    {"send": "250-relay.example\r\n250 AUTH PLAIN LOGIN CRAM-MD5\r\n"},
    {"expect": "AUTH PLAIN"},
]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsContexts:
    return make_tls(tmp_path_factory.mktemp("tls"))


def said(peer: ScriptedPeer, verb: bytes) -> list[bytes]:
    return [
        octets
        for connection in peer.log
        for speaker, octets in connection
        if speaker == "C" and octets.startswith(verb)
    ]


async def refusal(channel: SmtpChannel) -> Evidence:
    with pytest.raises(SessionRefused) as refused:
        async with channel.sendledger_session():
            pass
    await channel.aclose()
    return refused.value.evidence


# --- TLS: RFC 3207, RFC 8314 --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["starttls", "implicit"])
async def test_a_certificate_for_another_host_ends_the_session(
    kind: str, tls: TlsContexts, tmp_path: Path
) -> None:
    """It is vouched for, and names only localhost and 127.0.0.1."""
    async with CaptureServer(
        journal=tmp_path / "accepted.jsonl",
        host="127.0.0.2",
        tls=tls.server,
        implicit_tls=kind == "implicit",
    ) as server:
        channel = sendledger_channel(
            "email", settings_for(server, tls=kind, ca_file=str(tls.certificate))
        )
        assert isinstance(channel, SmtpChannel)
        evidence = await refusal(channel)
        await wait_until(lambda: server.connections.open == 0)
    assert (evidence.stage, evidence.fault) == ("tls", "tls")
    found = judge(evidence)
    assert (found.outcome, found.scope) == (Outcome.TRANSIENT, Scope.CHANNEL)


@pytest.mark.parametrize("injected", ["", "250-evil.example\r\n250-AUTH LOGIN\r\n250 SIZE 1\r\n"])
async def test_behind_tls_we_say_who_we_are_again_and_believe_only_the_answer_to_that(
    injected: str, tls: TlsContexts
) -> None:
    steps: Steps = [
        {"send": "220 relay.example\r\n"},
        {"expect": "EHLO"},
        {"send": "250-relay.example\r\n250-AUTH LOGIN\r\n250 STARTTLS\r\n"},
        {"expect": "STARTTLS"},
        {"send": f"220 go\r\n{injected}"},
        {"start_tls": "now"},
        *AUTH_OFFERED[1:],
        {"send": "235 2.7.0 welcome\r\n"},
        *AT_DOT[3:],
        {"send": "250 2.0.0 Ok\r\n"},
        *BYE,
    ]
    async with ScriptedPeer(scripts=[steps], tls_context=tls.server) as peer:
        settings = settings_for(peer, tls="starttls", ca_file=str(tls.certificate), **LOGIN)
        channel = SmtpChannel(settings, [tls.client])
        async with channel.sendledger_session() as session:
            evidence = await channel.sendledger_submit(session, envelope())
        await channel.aclose()
    assert judge(evidence).outcome is Outcome.ACCEPTED
    assert peer.failures == []
    assert (len(said(peer, b"EHLO")), len(said(peer, b"AUTH"))) == (2, 1)


# --- AUTH: RFC 4954 section 6 -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "needs_a_person"),
    [
        ("454 4.7.0 temporary authentication failure", False),
        ("421 4.7.0 too many failures", False),
        ("530 5.7.0 authentication required", True),
        ("534 5.7.9 mechanism too weak", True),
        ("535 5.7.8 bad credentials", True),
        ("538 5.7.11 encryption required", True),
        ("550 5.7.1 no", True),
    ],
)
async def test_a_login_that_fails_is_about_the_channel_and_is_tried_once(
    reply: str, needs_a_person: bool
) -> None:
    async with ScriptedPeer(scripts=[[*AUTH_OFFERED, {"send": f"{reply}\r\n"}, HUSH]]) as peer:
        evidence = await refusal(channel_for(peer, **LOGIN))
    found = judge(evidence)
    assert (evidence.stage, found.scope) == ("auth", Scope.CHANNEL)
    assert found.configuration_fault == needs_a_person
    assert found.outcome is (Outcome.PERMANENT if needs_a_person else Outcome.TRANSIENT)
    assert len(said(peer, b"AUTH")) == 1
    assert said(peer, b"MAIL") == []


# --- names: RFC 5321 sections 2.3.5 and 4.1.4 ---------------------------------------------------------


@pytest.mark.parametrize("name", [None, "mail.sender.example", "[192.0.2.1]", "[IPv6:2001:db8::1]"])
async def test_we_greet_under_the_configured_name_or_the_senders_domain(name: str | None) -> None:
    steps: Steps = [*AT_DOT, {"send": "250 ok\r\n"}, *BYE]
    async with ScriptedPeer(scripts=[steps]) as peer:
        await hand_over_once(peer, envelope(), **({} if name is None else {"ehlo_name": name}))
    assert said(peer, b"EHLO") == [f"EHLO {name or 'sender.example'}\r\n".encode()]
    assert EHLO.encode() in [octets for _, octets in peer.log[0]]


async def test_a_message_keeps_its_id_over_all_attempts_and_each_attempt_has_its_own_token() -> (
    None
):
    """Receivers may drop the repeat; a report still tells which attempt it is about."""
    channel = sendledger_channel(
        "email",
        settings_for(_Nobody(), message_id_domain="id.sender.example"),
    )
    writer = channel.sendledger_prepare(
        Content(
            revision="00" * 32,
            parts={
                part: compile_template(part, name=part, html=False) for part in ("subject", "text")
            },
        )
    )
    first, second = (
        writer.write(
            Addressee(
                intent_key="1f" * 16,
                attempt_number=number,
                token=token,
                destination="pat@example.com",
                variables={},
            )
        ).split(b"\r\n")
        for number, token in ((1, TOKEN), (2, TOKEN[::-1]))
    )
    assert b"Message-ID: <" + b"1f" * 16 + b"@id.sender.example>" in first
    differing = [line for line in second if line not in first and not line.startswith(b"Date:")]
    assert differing == [b"Sendledger-Token: " + TOKEN[::-1].encode()]


class _Nobody:
    host, port = "127.0.0.1", 1


# --- how long to go on: RFC 5321 section 4.5.4.1 ------------------------------------------------------


def test_the_example_policy_waits_as_the_standard_asks() -> None:
    """Five minutes first, for greylists; half an hour and more on average then; up to days."""
    retry = load_policy(ROOT / "config/policy.yaml").retry
    first, *later = retry.delays
    assert first >= timedelta(minutes=5)
    assert sum(later, timedelta(0)) / len(later) >= timedelta(minutes=30)
    assert retry.give_up_after is not None
    assert retry.give_up_after >= timedelta(days=2)
