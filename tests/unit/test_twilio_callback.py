"""Status callbacks: only what is signed for us is read, and only what is well-formed is evidence."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twilio.request_validator import RequestValidator

from sendledger.plugin import CallbackRefused, CallbackRequest, Outcome, Receipt, Secret
from sendledger_twilio.callback import read_callback
from sms_kit import ACCOUNT, AUTH_TOKEN, PLEASANT, SENDER, SID, TOKEN, judge_later, settings_for

URL = f"https://hooks.school.example/callbacks/sms/{TOKEN}"
FORM_TYPE = "application/x-www-form-urlencoded; charset=UTF-8"
SAID = {
    "AccountSid": ACCOUNT,
    "ApiVersion": "2010-04-01",
    "From": SENDER,
    "MessageSid": SID,
    "MessageStatus": "delivered",
    "SmsSid": SID,
    "SmsStatus": "delivered",
    "To": PLEASANT,
}


def request(
    said: dict[str, str] | list[tuple[str, str]] | bytes = SAID,
    *,
    token: str = AUTH_TOKEN,
    **headers: str,
) -> CallbackRequest:
    body = said if isinstance(said, bytes) else urlencode(said).encode()
    form = {} if isinstance(said, bytes) else dict(said)
    signature = str(RequestValidator(token).compute_signature(URL, form))
    given = {"content-type": FORM_TYPE, "x-twilio-signature": signature} | headers
    return CallbackRequest(token=TOKEN, url=URL, headers=given, body=body)


def read(said: Any = SAID, **changes: Any) -> Receipt:
    return read_callback(request(said, **changes), settings_for())


def refused(said: Any = SAID, **changes: Any) -> tuple[str, int]:
    with pytest.raises(CallbackRefused) as caught:
        read(said, **changes)
    assert PLEASANT not in f"{caught.value!r} {caught.value.__cause__!r}"
    return caught.value.reason, caught.value.status


def without(*names: str, **changes: str) -> dict[str, str]:
    return {name: value for name, value in (SAID | changes).items() if name not in names}


def test_a_signed_status_is_a_receipt() -> None:
    receipt = read()
    evidence = receipt.evidence
    assert receipt.identity == f"{SID}/delivered/"
    assert (evidence.stage, evidence.handed_over, evidence.answered) == ("receipt", True, True)
    assert evidence.provider_reference == SID
    assert evidence.literal == urlencode(SAID).encode()
    assert evidence.reply_code is None
    assert judge_later(evidence).outcome is Outcome.DELIVERED


def test_a_failure_has_its_code_and_an_identity_of_its_own() -> None:
    receipt = read(without(MessageStatus="undelivered", SmsStatus="undelivered", ErrorCode="30003"))
    assert receipt.identity == f"{SID}/undelivered/30003"
    assert receipt.evidence.reply_code == 30003
    assert judge_later(receipt.evidence).rule == "twilio.handset-unreachable"


def test_a_code_beside_a_status_that_is_no_failure_means_nothing() -> None:
    receipt = read(without(ErrorCode="30007"))
    assert receipt.evidence.reply_code is None
    assert judge_later(receipt.evidence).outcome is Outcome.DELIVERED


@pytest.mark.parametrize("blank", ["", "0"])
def test_a_code_may_be_blank(blank: str) -> None:
    assert read(without(ErrorCode=blank)).identity == f"{SID}/delivered/"


@pytest.mark.parametrize("status", ["teleported", "partially_delivered", "half-read"])
def test_a_status_that_nobody_knows_proves_that_it_was_taken(status: str) -> None:
    receipt = read(without(MessageStatus=status, SmsStatus=status))
    meaning = judge_later(receipt.evidence)
    assert (meaning.rule, meaning.outcome) == ("receipt.unmapped", Outcome.ACCEPTED)


def test_the_names_of_earlier_versions_will_do() -> None:
    assert read(without("MessageSid", "MessageStatus")).identity == f"{SID}/delivered/"


def test_fields_that_nobody_knows_are_kept_and_change_nothing() -> None:
    receipt = read(SAID | {"RawDlrDoneDate": "2603020900", "Zoë": "李"})
    assert receipt.identity == f"{SID}/delivered/"
    assert b"RawDlrDoneDate" in receipt.evidence.literal


def test_nothing_is_read_without_a_signature_of_ours() -> None:
    assert refused(token="0" * 32) == ("not-signed", 403)
    assert refused(**{"x-twilio-signature": ""}) == ("not-signed", 403)
    assert refused({"nonsense": "1"}, token="0" * 32) == ("not-signed", 403)


def test_a_signature_of_another_account_is_not_ours() -> None:
    assert refused(without(AccountSid="AC" + "9" * 32)) == ("another-account", 403)
    assert refused(without("AccountSid")) == ("another-account", 403)


@pytest.mark.parametrize(
    "said",
    [
        without("MessageSid", "SmsSid"),
        without("MessageStatus", "SmsStatus"),
        without(SmsSid="SM" + "9" * 32),
        without(SmsStatus="sent"),
        without(MessageSid="SM1", SmsSid="SM1"),
        without("SmsSid", MessageSid=SID + "x"),
        without("SmsStatus", MessageStatus="deliveredTo+12025550143"),
        without("SmsStatus", MessageStatus=""),
        without(ErrorCode="30007From"),
        without("From", ErrorCode=f"30007From{SENDER}"),
        without(ApiVersion="2010-04-01ErrorCode30006"),
        [*SAID.items(), ("MessageStatus", "delivered")],
    ],
    ids=range(12),
)
def test_what_is_signed_and_not_well_formed_is_no_evidence(said: Any) -> None:
    assert refused(said) == ("malformed", 400)


@pytest.mark.parametrize("status", ["received", "receiving"])
def test_a_message_that_comes_to_us_is_no_receipt(status: str) -> None:
    assert refused(without(MessageStatus=status, SmsStatus=status)) == ("inbound", 400)


@pytest.mark.parametrize("body", [b"", b"\xff", b"a=%ff", b"&".join([b"a=1"] * 101)])
def test_a_body_that_is_no_form_is_refused(body: bytes) -> None:
    reason, status = refused(body)
    assert (reason in {"unreadable", "not-signed"}, status) == (True, 403)


def test_a_query_that_we_did_not_issue_is_refused() -> None:
    url = f"{URL}?MessageStatus=sent"
    signature = str(RequestValidator(AUTH_TOKEN).compute_signature(url, SAID))
    forged = CallbackRequest(
        token=TOKEN,
        url=url,
        headers={"content-type": FORM_TYPE, "x-twilio-signature": signature},
        body=urlencode(SAID).encode(),
    )
    with pytest.raises(CallbackRefused, match="not-signed"):
        read_callback(forged, settings_for())


def test_a_secondary_token_verifies_while_the_first_is_being_replaced() -> None:
    settings = settings_for(secondary_auth_token=Secret("b" * 32))
    assert read_callback(request(token="b" * 32), settings).evidence.answered


names = st.sampled_from([*SAID, "ErrorCode", "SmsMessageSid", "Extra"])
values = st.one_of(
    st.sampled_from([*SAID.values(), "sent", "30003", ""]),
    st.text(st.characters(codec="utf-8"), max_size=10),
)


def read_or_refused(said: dict[str, str]) -> Receipt | str:
    try:
        return read(said)
    except CallbackRefused as refused:
        return refused.reason


@given(st.dictionaries(names, values))
def test_whatever_is_signed_is_a_receipt_or_is_refused(said: dict[str, str]) -> None:
    found = read_or_refused(SAID | said)
    if isinstance(found, str):
        assert found in {"another-account", "malformed", "inbound"}
    else:
        assert found.evidence.provider_reference == SID
        assert judge_later(found.evidence).outcome is not Outcome.AMBIGUOUS


def document(body: bytes) -> CallbackRequest:
    url = f"{URL}?bodySHA256={hashlib.sha256(body).hexdigest()}"
    signature = str(RequestValidator(AUTH_TOKEN).compute_signature(url, {}))
    headers = {"content-type": "application/json", "x-twilio-signature": signature}
    return CallbackRequest(token=TOKEN, url=url, headers=headers, body=body)


def test_a_receipt_may_come_as_json_signed_by_its_digest() -> None:
    body = json.dumps(SAID | {"ErrorCode": None}).encode()
    receipt = read_callback(document(body), settings_for())
    assert receipt.identity == f"{SID}/delivered/"
    assert receipt.evidence.literal == body


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"[1]", b'"x"', b"{", b'[["AccountSid", "x"]]', b"[" * 60_000]
)
def test_json_that_holds_no_fields_is_malformed(body: bytes) -> None:
    with pytest.raises(CallbackRefused) as caught:
        read_callback(document(body), settings_for())
    assert (caught.value.reason, caught.value.status) in {
        ("malformed", 400),
        ("another-account", 403),
    }
