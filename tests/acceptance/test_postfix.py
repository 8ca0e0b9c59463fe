"""A real Postfix as next hop: what it takes arrives byte for byte, and what it refuses means what it says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from acceptance.ledger_checker import violations
from acceptance.rig import Site, drained, relay_of, until
from plugins_for_tests import install, keeper
from postfix_relay import PostfixRelay, needs_postfix, postfix_relay
from raw_smtp import wait_until
from sendledger.plugin import Evidence, Outcome, Scope, Suppress
from sendledger_sandbox import CaptureServer, read_journal
from sendledger_smtp import SmtpChannel, sendledger_channel
from smtp_kit import MESSAGE, channel_for, envelope, hand_over, hand_over_once, judge, settings_for
from smtp_peer import make_tls

pytestmark = needs_postfix

MESSAGES = 300
TRACE = re.compile(rb"(?:Received|Return-Path|Delivered-To):[^\r\n]*\r\n(?:[ \t][^\r\n]*\r\n)*")
CONTENT = {
    "subject": "Report for {{name}}",
    "text": ".\n.. {{name}}\n" + "a long line " * 200 + "\n\n.\nFrom the start\n \nend ",
    "html": "<p>Dear {{name}},</p>\n<p>.</p>\n",
}
NAMES = ("Åsa Öberg", "José & María", "N. O'Dot", "李小龙", "Plain", "two  spaces ")


def without_trace(message: bytes) -> bytes:
    """Return *message* without the headers that relays put on top of it (RFC 5321 section 4.4)."""
    while found := TRACE.match(message):
        message = message[found.end() :]
    return message


# --- what is taken ------------------------------------------------------------------------------------


async def test_every_byte_that_was_written_arrives_once_through_postfix(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "keeper", keeper="plugins_for_tests.keeper")
    keeper.kept.clear()
    site.settings["plugins"] = ["policy", "keeper"]
    site.batch["content"] = CONTENT
    people = {f"s{n}": f"parent{n}@home{n % 7}.test" for n in range(MESSAGES)}
    async with relay_of(site, fsync=False) as receiver:
        with postfix_relay(next_hop=receiver.port) as relay:
            site.relay["port"] = str(relay.port)
            await site.planned(people, {one: NAMES[n % 6] for n, one in enumerate(people)})
            await drained(site)
            await until(lambda: receiver.accepted >= MESSAGES)
        assert receiver.unexpected == []
        entries = read_journal(receiver.journal)
        arrived = {
            entry.token: (entry, (tmp_path / "kept" / f"{entry.n:06d}.eml").read_bytes())
            for entry in entries
        }
    assert len(entries) == len(arrived) == MESSAGES
    for token, (entry, message) in arrived.items():
        assert token is not None
        assert message.startswith(b"Received: ")
        assert without_trace(message) == keeper.kept[token]
        assert entry.mail_from == f"b+{token}@bounces.school.example"
        assert entry.envid == token
    assert sorted(entry.rcpt for entry in entries) == sorted((one,) for one in people.values())
    assert {row.status for row in site.rows()} == {"submitted"}
    assert violations(site.dsn, receiver.journal, people.keys()) == []


async def test_the_queue_id_of_each_acceptance_is_the_one_in_postfixs_own_log() -> None:
    with postfix_relay() as relay:
        evidence = await hand_over_once(relay, envelope())
        assert judge(evidence).outcome is Outcome.ACCEPTED
        reference = evidence.provider_reference
        assert reference is not None
        await wait_until(lambda: f"{reference}: to=<" in relay.log)


async def test_postfix_is_spoken_to_under_tls(tmp_path: Path) -> None:
    tls = make_tls(tmp_path)
    settings = {
        "smtpd_tls_security_level": "encrypt",
        "smtpd_tls_cert_file": str(tmp_path / "certificate.pem"),
        "smtpd_tls_key_file": str(tmp_path / "key.pem"),
    }
    with postfix_relay(settings=settings) as relay:
        secure = settings_for(relay, tls="starttls", ca_file=str(tls.certificate))
        channel = sendledger_channel("email", secure)
        assert isinstance(channel, SmtpChannel)
        assert judge(await hand_over(channel, envelope())).outcome is Outcome.ACCEPTED
        await channel.aclose()
        in_clear = await hand_over_once(relay, envelope())
    assert (in_clear.stage, in_clear.reply_code) == ("mail", 530)
    assert judge(in_clear).configuration_fault


async def test_a_session_that_postfix_ended_for_idleness_costs_nothing() -> None:
    with postfix_relay(settings={"smtpd_timeout": "1s"}) as relay:
        channel = channel_for(relay)
        assert judge(await hand_over(channel, envelope())).outcome is Outcome.ACCEPTED
        (kept,) = channel._pool._idle
        await wait_until(lambda: not kept.wire.quiet)
        assert judge(await hand_over(channel, envelope())).outcome is Outcome.ACCEPTED
        await channel.aclose()


# --- what is refused ----------------------------------------------------------------------------------

REFUSING = {
    "virtual_mailbox_domains": "home.test",
    "virtual_mailbox_maps": "inline:{ {pat@home.test = x} {grey@home.test = x} {full@home.test = x} }",
    "virtual_transport": "discard:",
    "smtpd_relay_restrictions": "reject_unauth_destination",
    "smtpd_recipient_restrictions": (
        "check_recipient_access inline:{"
        " {grey@home.test = 450 4.2.0 Greylisted for 300 seconds}"
        " {full@home.test = 452 4.2.2 Over quota} }"
    ),
    "message_size_limit": "4000",
}


@pytest.fixture(scope="module")
def refusing() -> Iterator[PostfixRelay]:
    with postfix_relay(settings=REFUSING) as relay:
        yield relay


@dataclass(frozen=True, slots=True)
class Means:
    """What a reply is to mean."""

    code: str
    rule: str
    outcome: Outcome
    suppress: Suppress = Suppress.NONE
    wait_s: int | None = None


RECIPIENTS = {
    "pat@home.test": Means("250 2.0.0", "default.2yz", Outcome.ACCEPTED),
    "gone@home.test": Means(
        "550 5.1.1", "smtp.address-unknown", Outcome.PERMANENT, Suppress.DESTINATION
    ),
    "grey@home.test": Means("450 4.2.0", "smtp.greylisted", Outcome.TRANSIENT, wait_s=300),
    "full@home.test": Means("452 4.2.2", "smtp.mailbox-full", Outcome.TRANSIENT),
    "pat@away.test": Means("554 5.7.1", "smtp.policy-refused-recipient", Outcome.PERMANENT),
}


@pytest.mark.parametrize("destination", RECIPIENTS)
async def test_what_postfix_says_of_a_recipient_means(
    refusing: PostfixRelay, destination: str
) -> None:
    evidence = await hand_over_once(refusing, envelope(destination))
    found, wait = judge(evidence), evidence.retry_after
    assert found.scope is Scope.RECIPIENT
    assert RECIPIENTS[destination] == Means(
        f"{evidence.reply_code} {evidence.enhanced_code}",
        found.rule,
        found.outcome,
        found.suppress,
        None if wait is None else int(wait.total_seconds()),
    )


async def test_a_message_larger_than_postfix_declares_is_not_offered(
    refusing: PostfixRelay,
) -> None:
    evidence = await hand_over_once(refusing, envelope("pat@home.test", LARGE))
    assert (evidence.stage, evidence.fault, evidence.answered) == ("mail", "too-large", False)
    assert (judge(evidence).outcome, judge(evidence).scope) == (Outcome.PERMANENT, Scope.MESSAGE)


LARGE = MESSAGE + b"y" * 70 * 100 + b"\r\n"


@pytest.mark.parametrize(
    ("settings", "literal", "means"),
    [
        (
            {"message_size_limit": "4000", "smtpd_discard_ehlo_keywords": "size"},
            b"552 5.3.4 ",
            ("dot", "smtp.message-refused", Outcome.PERMANENT, Scope.MESSAGE),
        ),
        (
            {"smtpd_sender_restrictions": "check_sender_access static:{550 5.7.1 not you}"},
            b"550 5.7.1 ",
            ("rcpt", "smtp.policy-refused-recipient", Outcome.PERMANENT, Scope.RECIPIENT),
        ),
        (
            {
                "smtpd_delay_reject": "no",
                "smtpd_sender_restrictions": "check_sender_access static:{550 5.7.1 not you}",
            },
            b"550 5.7.1 ",
            ("mail", "smtp.sender-refused", Outcome.PERMANENT, Scope.SENDER),
        ),
        (
            {"smtpd_client_message_rate_limit": "1", "smtpd_client_event_limit_exceptions": ""},
            b"450 4.7.1 ",
            ("mail", "smtp.rate-limited", Outcome.TRANSIENT, Scope.CHANNEL),
        ),
        (
            {
                "smtpd_delay_reject": "no",
                "smtpd_client_restrictions": "check_client_access static:{521 5.7.1 go away}",
            },
            b"521 5.7.1 ",
            ("greeting", "smtp.greeting-refused", Outcome.PERMANENT, Scope.CHANNEL),
        ),
    ],
    ids=["too-big", "sender-late", "sender", "rate", "client"],
)
async def test_what_postfix_says_of_us_and_of_the_message_means(
    settings: Mapping[str, str], literal: bytes, means: tuple[str, str, Outcome, Scope]
) -> None:
    with postfix_relay(settings=settings) as relay:
        channel = channel_for(relay)
        evidence = await _refusal(channel)
        await channel.aclose()
    found = judge(evidence)
    assert evidence.literal.startswith(literal)
    assert (evidence.stage, found.rule, found.outcome, found.scope) == means
    assert found.suppress is Suppress.NONE


async def _refusal(channel: SmtpChannel) -> Evidence:
    """Hand over until something is refused: a rate limit lets the first message through."""
    for _ in range(3):
        evidence = await hand_over(channel, envelope(message=LARGE))
        if judge(evidence).outcome is not Outcome.ACCEPTED:
            break
    return evidence


async def test_more_connections_than_postfix_allows_are_an_outage_of_the_channel() -> None:
    settings = {
        "smtpd_client_connection_count_limit": "1",
        "smtpd_client_event_limit_exceptions": "",
    }
    with postfix_relay(settings=settings) as relay:
        channel = channel_for(relay)
        async with channel.sendledger_session():
            evidence = await hand_over(channel, envelope())
        await channel.aclose()
    assert (evidence.stage, evidence.reply_code) == ("greeting", 421)
    assert (judge(evidence).outcome, judge(evidence).scope) == (Outcome.TRANSIENT, Scope.CHANNEL)


async def test_postfix_killed_in_the_middle_leaves_no_doubt_before_the_message(
    tmp_path: Path,
) -> None:
    """Its successor on a fallback takes the next attempt."""
    async with CaptureServer(journal=tmp_path / "accepted.jsonl", fsync=False) as other:
        fallback = {"host": other.host, "port": str(other.port), "tls": "none"}
        with postfix_relay() as relay:
            channel = channel_for(relay, fallbacks=[fallback])
            first = await hand_over(channel, envelope())
        (kept,) = channel._pool._idle
        await wait_until(lambda: not kept.wire.quiet)
        found = await asyncio.gather(*(hand_over(channel, envelope()) for _ in range(8)))
        await channel.aclose()
        assert other.accepted == 8
    assert first.facts["relay"] == f"{relay.host}:{relay.port}"
    assert {judge(evidence).outcome for evidence in (first, *found)} == {Outcome.ACCEPTED}
