"""Answers become evidence: literal, with Twilio's own code, and never more certain than they are."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from hypothesis import given
from hypothesis import strategies as st

from sendledger.plugin import Evidence, Outcome, Scope
from sendledger_twilio.answer import evidence_of, read_date, read_retry_after
from sendledger_twilio.client import unreached
from sendledger_twilio.submission import fields_of
from sms_kit import NOW, PLEASANT, SENDER, SERVICE, SID, envelope, judge, settings_for

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
fields = st.sampled_from(["sid", "status", "code", "error_code", "message"])
json_texts = st.dictionaries(fields, st.just(SID) | json_values).map(
    lambda found: json.dumps(found).encode()
)


def answered(status: int, body: Any, retry_after: str | None = None) -> Evidence:
    octets = body if isinstance(body, bytes) else json.dumps(body).encode()
    return evidence_of(status, octets, retry_after, now=NOW)


def test_an_acceptance_has_its_sid_and_every_byte() -> None:
    body = b'{"sid": "%b",  "status": "queued", "error_code": null}' % SID.encode()
    found = answered(201, body)
    assert found.literal == body
    assert (found.provider_reference, found.reply_code) == (SID, 201)
    assert (found.handed_over, found.answered, found.stage) == (True, True, "request")
    assert found.facts["status"] == "queued"
    assert (judge(found).outcome, judge(found).rule) == (Outcome.ACCEPTED, "twilio.accepted")


def test_an_error_has_twilios_own_code() -> None:
    found = answered(400, {"code": 21211, "message": f"'To' {PLEASANT} is bad", "status": 400})
    assert (found.reply_code, found.provider_reference) == (21211, None)
    assert PLEASANT not in repr(found)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"<html>", b'"x"', b"null", b"\xff", b'{"sid": "SM1"}', b'{"sid": 1}'],
)
def test_a_positive_answer_without_a_message_proves_nothing(body: bytes) -> None:
    found = answered(201, body)
    assert (found.handed_over, found.answered, found.fault) == (True, False, "protocol")
    assert found.literal == body
    assert judge(found).outcome is Outcome.AMBIGUOUS


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("body", [b"<html>", b'{"code": 20500}', b'{"code": 20503}', b""])
def test_a_server_error_after_the_request_was_written_is_ambiguous(
    status: int, body: bytes
) -> None:
    found = judge(answered(status, body))
    assert (found.outcome, found.rule) == (Outcome.AMBIGUOUS, "twilio.server-error")


@pytest.mark.parametrize("body", [b"", b'{"code": 20429}', b'{"code": 14107}', b"Too Many"])
def test_too_many_requests_were_never_processed(body: bytes) -> None:
    found = answered(429, body, "7")
    assert found.retry_after == timedelta(seconds=7)
    meaning = judge(found)
    assert (meaning.outcome, meaning.scope) == (Outcome.TRANSIENT, Scope.CHANNEL)


@pytest.mark.parametrize("code", ["x", 0, -1, 200, 250, 10**9, True, None, [], 1.5])
def test_a_code_that_is_none_leaves_the_status_and_never_makes_a_refusal_an_acceptance(
    code: object,
) -> None:
    found = answered(404, {"code": code})
    assert found.reply_code == 404
    assert judge(found).outcome is Outcome.PERMANENT


def test_a_message_that_failed_at_once_is_no_acceptance() -> None:
    body = {"sid": SID, "status": "failed", "error_code": 30006}
    found = answered(201, body)
    assert (found.reply_code, found.provider_reference) == (30006, SID)
    assert judge(found).rule == "twilio.landline-or-carrier"
    without = judge(answered(201, body | {"error_code": None}))
    assert (without.rule, without.attempts_max) == ("twilio.failed-at-once", 2)


@pytest.mark.parametrize("status", [300, 302, 400, 404, 405, 410, 418])
def test_a_refusal_that_nobody_mapped_pauses_the_sender_and_fails_nobody(status: int) -> None:
    found = judge(answered(status, {"code": 99999}))
    assert (found.rule, found.scope) == ("twilio.refused-unmapped", Scope.SENDER)
    assert found.configuration_fault


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ("0", 0),
        ("120", 120),
        ("999999", 86_400),
        ("Mon, 02 Mar 2026 09:00:30 GMT", 30),
        ("Mon, 02 Mar 2026 08:00:00 GMT", 0),
        ("Mon, 02 Mar 2026 09:01:00 -0000", 60),
    ],
)
def test_the_wait_that_is_asked_for_is_read(text: str, wait_s: int) -> None:
    assert read_retry_after(text, NOW) == timedelta(seconds=wait_s)


@pytest.mark.parametrize("text", ["soon", "-1", "1.5", "", "99999999999999999999", "٣"])
def test_a_wait_that_cannot_be_read_is_none(text: str) -> None:
    assert read_retry_after(text, NOW) is None


@pytest.mark.parametrize("text", [None, 5, "", "yesterday", "Mon, 99 Mar 2026 09:00:30 GMT"])
def test_an_instant_that_cannot_be_read_is_none(text: object) -> None:
    assert read_date(text) is None


@given(st.integers(100, 599), st.one_of(st.binary(max_size=200), json_texts))
def test_no_answer_is_too_strange_to_be_evidence(status: int, octets: bytes) -> None:
    found = evidence_of(status, octets, "x", now=NOW)
    assert found.literal == octets
    assert found.handed_over
    sure = found.answered and 200 <= status < 300
    assert (found.provider_reference is not None) == sure
    assert judge(found).rule


def test_an_answer_that_is_nested_without_end_proves_nothing() -> None:
    assert not answered(201, b"[" * 200_000).answered


# --- the form ------------------------------------------------------------------------------------


def test_the_form_says_who_to_whom_what_and_for_how_long() -> None:
    assert fields_of(envelope(), settings_for(), now=NOW) == {
        "To": PLEASANT,
        "From": SENDER,
        "Body": envelope().message.decode(),
        "ValidityPeriod": "36000",
        "SmartEncoded": "false",
    }


def test_a_messaging_service_chooses_the_number_itself() -> None:
    settings = settings_for(senders=None, messaging_service_sid=SERVICE)
    fields = fields_of(envelope(), settings, now=NOW)
    assert fields is not None
    assert fields["MessagingServiceSid"] == SERVICE
    assert "From" not in fields


def test_receipts_go_to_the_address_of_the_envelope_again_and_again() -> None:
    """A database that is away for a moment is no reason to lose what a network reported."""
    url = "https://hooks.school.example/callbacks/sms/abc"
    fields = fields_of(envelope(callback_url=url), settings_for(), now=NOW)
    assert fields is not None
    assert fields["StatusCallback"] == f"{url}#rc=5&rp=ct,rt,5xx"


@pytest.mark.parametrize(
    ("left_s", "validity"), [(36_001, "36000"), (90.9, "90"), (1, "1"), (0.9, None), (-5, None)]
)
def test_nothing_is_to_arrive_after_the_last_instant(left_s: float, validity: str | None) -> None:
    late = envelope(not_after=NOW + timedelta(seconds=left_s))
    fields = fields_of(late, settings_for(), now=NOW)
    assert (fields and fields["ValidityPeriod"]) == validity


def test_a_message_is_valid_no_longer_than_the_settings_say() -> None:
    fields = fields_of(envelope(), settings_for(validity_max="5m"), now=NOW)
    assert fields is not None
    assert fields["ValidityPeriod"] == "300"


# --- faults of the connection ----------------------------------------------------------------------

KEY = ConnectionKey("api.example", 443, True, True, None, None, None)


@pytest.mark.parametrize(
    ("error", "stage", "fault"),
    [
        (aiohttp.ClientConnectorDNSError(KEY, OSError(PLEASANT)), "connect", "dns"),
        (aiohttp.ClientConnectorError(KEY, OSError(PLEASANT)), "connect", "refused"),
        (aiohttp.ClientConnectorCertificateError(KEY, Exception(PLEASANT)), "tls", "tls"),
        (aiohttp.ClientConnectorSSLError(KEY, OSError(PLEASANT)), "tls", "tls"),
        (aiohttp.ConnectionTimeoutError(PLEASANT), "connect", "timeout"),
        (TimeoutError(PLEASANT), "connect", "timeout"),
        (aiohttp.ClientConnectionError(PLEASANT), "connect", "closed"),
    ],
)
def test_a_connection_that_was_not_to_be_had_has_a_word_and_no_text(
    error: Exception, stage: str, fault: str
) -> None:
    found = unreached(error)
    assert (found.stage, found.fault) == (stage, fault)
    assert PLEASANT not in str(found)
