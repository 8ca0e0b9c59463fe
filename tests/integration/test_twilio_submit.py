"""Submissions over real sockets: one POST, whatever happens, and exact about how far it had come."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64encode
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from http_peer import Asked, HttpPeer, LastWords, Respond, response
from sendledger.plugin import Evidence, Outcome, Scope, Secret
from sendledger_sandbox.twilio import TwilioStandIn
from sendledger_twilio.submission import INSIST
from sms_kit import (
    ACCOUNT,
    AUTH_TOKEN,
    BODY,
    NOW,
    PLEASANT,
    SENDER,
    SERVICE,
    SID,
    channel_for,
    envelope,
    hand_over,
    hand_over_once,
    judge,
)
from smtp_peer import make_tls

TAKEN = response(201, json.dumps({"sid": SID, "status": "queued"}).encode())
URL = "https://hooks.school.example/callbacks/sms/abc"


def always(octets: bytes | None) -> Respond:
    return lambda _: octets


async def met_by(octets: bytes | None, **changes: Any) -> tuple[Evidence, list[Asked]]:
    """Return the evidence of one attempt that is answered so, and what the peer was asked."""
    async with HttpPeer(always(octets)) as peer:
        evidence = await hand_over_once(peer.url, **changes)
        return evidence, peer.asked


async def test_a_message_is_one_request_with_the_accounts_credentials() -> None:
    _, [asked] = await met_by(TAKEN)
    assert (asked.method, asked.target) == (
        "POST",
        f"/2010-04-01/Accounts/{ACCOUNT}/Messages.json",
    )
    token = b64encode(f"{ACCOUNT}:{AUTH_TOKEN}".encode()).decode()
    assert asked.headers["authorization"] == f"Basic {token}"
    assert asked.form == {
        "To": PLEASANT,
        "From": SENDER,
        "Body": BODY,
        "ValidityPeriod": "36000",
        "SmartEncoded": "false",
    }


async def test_an_api_key_may_ask_in_place_of_the_account() -> None:
    key = "SK" + "0" * 32
    _, [asked] = await met_by(TAKEN, api_key_sid=key, api_key_secret=Secret("of the key"))
    token = b64encode(f"{key}:of the key".encode()).decode()
    assert asked.headers["authorization"] == f"Basic {token}"
    assert ACCOUNT in asked.target


async def test_nothing_of_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TWILIO_EDGE", "TWILIO_REGION", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    evidence, _ = await met_by(TAKEN)
    assert evidence.provider_reference == SID


async def test_a_callback_address_and_a_service_go_along() -> None:
    async with HttpPeer(always(TAKEN)) as peer:
        channel = channel_for(peer.url, senders=None, messaging_service_sid=SERVICE)
        await hand_over(channel, envelope(callback_url=URL))
        await channel.aclose()
    [asked] = peer.asked
    assert asked.form["StatusCallback"] == URL + INSIST
    assert asked.form["MessagingServiceSid"] == SERVICE
    assert "From" not in asked.form


@pytest.mark.parametrize(
    "octets",
    [
        response(500, b"{}"),
        response(503, b""),
        response(201, b"{}"),
        response(201, b'{"sid":'),
        LastWords(b"\x00\xff nonsense\r\n\r\n"),
        LastWords(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{}"),
        LastWords(b"HTTP/1.1 201 Created\r\nContent-Le"),
        None,
    ],
    ids=range(8),
)
async def test_an_answer_that_proves_nothing_leaves_one_request_in_doubt(
    octets: bytes | None,
) -> None:
    evidence, asked = await met_by(octets)
    assert evidence.handed_over
    assert judge(evidence).outcome is Outcome.AMBIGUOUS
    assert len(asked) == 1


async def test_silence_after_the_request_was_written_is_doubt() -> None:
    async def never(_: Asked) -> bytes | None:
        await asyncio.Event().wait()
        return None

    async with HttpPeer(never) as peer:
        timeouts = {"connect": "10s", "answer": "300ms"}
        evidence = await hand_over_once(peer.url, timeouts=timeouts)
    assert (evidence.handed_over, evidence.answered) == (True, False)
    assert (evidence.fault, len(peer.asked)) == ("timeout", 1)


async def test_an_answer_without_end_is_given_up() -> None:
    head = b"HTTP/1.1 201 Created\r\nContent-Length: 5000000\r\n\r\n"
    evidence, asked = await met_by(head + b" " * 5_000_000)
    assert (evidence.answered, evidence.fault) == (False, "protocol")
    assert len(asked) == 1


async def test_a_redirect_is_not_followed() -> None:
    evidence, asked = await met_by(response(307, b"", Location="/elsewhere"))
    assert (evidence.reply_code, len(asked)) == (307, 1)


async def test_too_many_requests_slow_the_channel_by_what_is_asked_for() -> None:
    body = b'{"code": 20429, "message": "Too Many Requests", "status": 429}'
    evidence, _ = await met_by(response(429, body, Retry_After="7"))
    assert evidence.retry_after == timedelta(seconds=7)
    assert evidence.literal == body
    meaning = judge(evidence)
    assert (meaning.outcome, meaning.scope) == (Outcome.TRANSIENT, Scope.CHANNEL)


async def test_a_compressed_answer_is_not_asked_for() -> None:
    _, [asked] = await met_by(TAKEN)
    assert asked.headers["accept-encoding"] == "identity"


# --- before anything is written ----------------------------------------------------------------------


async def test_an_api_that_refuses_connections_is_met_before_the_attempt() -> None:
    async with HttpPeer(always(TAKEN)) as peer:
        url = peer.url
    evidence = await hand_over_once(url)
    assert (evidence.stage, evidence.fault) == ("connect", "refused")
    assert (evidence.handed_over, evidence.answered) == (False, False)


async def test_tls_is_verified_before_the_attempt(tmp_path: Path) -> None:
    ends = make_tls(tmp_path)
    async with HttpPeer(always(TAKEN), tls=ends.server) as peer:
        evidence = await hand_over_once(peer.url)
    assert (evidence.stage, evidence.fault, evidence.handed_over) == ("tls", "tls", False)
    assert peer.asked == []


async def test_a_connection_that_ends_between_lending_and_submitting_is_made_again() -> None:
    async with HttpPeer(always(TAKEN)) as peer:
        channel = channel_for(peer.url)
        async with channel.sendledger_session() as session:
            await peer.leave()
            await peer.come_back()
            evidence = await channel.sendledger_submit(session, envelope())
        await channel.aclose()
    assert evidence.answered
    assert (len(peer.asked), peer.met) == (1, 2)


async def test_what_could_not_arrive_in_time_is_never_asked_for() -> None:
    async with HttpPeer(always(TAKEN)) as peer:
        channel = channel_for(peer.url, clock=lambda: NOW)
        evidence = await hand_over(channel, envelope(not_after=NOW))
        await channel.aclose()
    assert (evidence.fault, evidence.handed_over, peer.asked) == ("too-late", False, [])


async def test_after_closing_no_session_is_lent() -> None:
    async with HttpPeer(always(TAKEN)) as peer:
        channel = channel_for(peer.url)
        assert (await hand_over(channel)).answered
        await channel.aclose()
        evidence = await hand_over(channel)
    assert (evidence.fault, evidence.handed_over) == ("closed", False)


async def test_connections_are_kept_and_used_again() -> None:
    async with HttpPeer(always(TAKEN)) as peer:
        channel = channel_for(peer.url)
        for _ in range(5):
            assert (await hand_over(channel)).answered
        await channel.aclose()
    assert (len(peer.asked), peer.met) == (5, 1)


# --- with the stand-in -------------------------------------------------------------------------------


async def test_the_stand_in_takes_what_the_channel_hands_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with TwilioStandIn(journal=tmp_path / "accepted.jsonl", fsync=False) as twilio:
        evidence = await hand_over_once(twilio.url, account_sid=twilio.account_sid)
        [message] = twilio.messages()
    assert message.sid == evidence.provider_reference
    assert (message.request.to, message.body, message.sender) == (PLEASANT, BODY, SENDER)
    assert not [line for line in caplog.messages if PLEASANT[1:] in line or BODY in line]


async def test_many_hand_over_at_once_within_the_bound(tmp_path: Path) -> None:
    async with TwilioStandIn(journal=tmp_path / "accepted.jsonl", fsync=False) as twilio:
        channel = channel_for(twilio.url, account_sid=twilio.account_sid, sessions_max="4")
        people = [envelope(f"+1{area}5550143") for area in range(202, 232)]
        found = await asyncio.gather(*[hand_over(channel, one) for one in people])
        await channel.aclose()
        assert twilio.connections.peak <= 4
        taken = {message.request.to: message.sid for message in twilio.messages()}
    assert taken == {
        one.destination: evidence.provider_reference
        for one, evidence in zip(people, found, strict=True)
    }
