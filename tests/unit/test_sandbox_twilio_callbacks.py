"""Callbacks of the Twilio stand-in: their signature, their fields, how often they are repeated."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from twilio.request_validator import RequestValidator

from sendledger_sandbox.twilio import ACCOUNT_SID, AUTH_TOKEN, SENDER, Message, sign
from sendledger_sandbox.twilio.callbacks import Change, Retries, fields_of
from sendledger_sandbox.twilio.message import Request

AT = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
URL = "https://reports.example/callbacks/sms/TOKEN?x=1"


def message(*, sid: str = f"SM{10:032x}", service: str | None = None) -> Message:
    request = Request(
        to="+12025550101", sender=SENDER, service_sid=service, body="hello", callback_url=URL
    )
    return Message(
        sid=sid,
        account_sid=ACCOUNT_SID,
        request=request,
        created_at=AT,
        sender=SENDER,
        status="queued",
        body="hello",
    )


@pytest.mark.parametrize(
    ("status", "code", "service"),
    [("sent", None, None), ("undelivered", 30003, None), ("delivered", None, f"MG{1:032x}")],
)
def test_the_vendors_own_validator_accepts_the_signature(
    status: str, code: int | None, service: str | None
) -> None:
    fields = fields_of(message(service=service), Change(status=status, error_code=code, at=AT))
    validator = RequestValidator(AUTH_TOKEN)
    assert validator.validate(URL, fields, sign(AUTH_TOKEN, URL, fields))
    assert not validator.validate(URL, fields, sign("another", URL, fields))
    assert not validator.validate(f"{URL}2", fields, sign(AUTH_TOKEN, URL, fields))


def test_a_callback_says_who_what_and_why() -> None:
    change = Change(status="undelivered", error_code=30003, at=AT)
    assert fields_of(message(), change) == {
        "AccountSid": ACCOUNT_SID,
        "ApiVersion": "2010-04-01",
        "ErrorCode": "30003",
        "From": SENDER,
        "MessageSid": f"SM{10:032x}",
        "MessageStatus": "undelivered",
        "RawDlrDoneDate": "2603020830",
        "SmsSid": f"SM{10:032x}",
        "SmsStatus": "undelivered",
        "To": "+12025550101",
    }


def test_only_some_receipts_bring_the_networks_own_time() -> None:
    delivered = Change(status="delivered", error_code=None, at=AT)
    sent = Change(status="sent", error_code=None, at=AT)
    assert "RawDlrDoneDate" in fields_of(message(), delivered)
    assert "RawDlrDoneDate" not in fields_of(message(sid=f"SM{11:032x}"), delivered)
    assert "RawDlrDoneDate" not in fields_of(message(), sent)


@pytest.mark.parametrize(
    ("fragment", "failure", "tries"),
    [
        ("", "ct", 2),
        ("", "rt", 1),
        ("", "5xx", 1),
        ("rc=3", "ct", 4),
        ("rc=0", "ct", 1),
        ("rc=9", "ct", 6),
        ("rc=many", "ct", 2),
        ("rc=2&rp=5xx,4xx", "4xx", 3),
        ("rc=2&rp=5xx,4xx", "ct", 1),
        ("rp=all", "5xx", 2),
        ("rp=all", "rt", 2),
    ],
)
def test_the_fragment_of_a_url_says_how_often_a_callback_is_tried(
    fragment: str, failure: str, tries: int
) -> None:
    retries, made = Retries.asked_in(fragment), 1
    while retries.allow(made, failure):
        made += 1
    assert made == tries
