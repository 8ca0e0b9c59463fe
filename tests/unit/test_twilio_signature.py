"""Signatures: what the vendor's own validator accepts, over the address that we issued and nothing else."""

from __future__ import annotations

import hashlib
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twilio.request_validator import RequestValidator

from sendledger_twilio.signature import is_issued, is_signed, spellings
from sms_kit import AUTH_TOKEN

URL = "https://hooks.school.example/callbacks/sms/abc"
FORM = [("MessageSid", "SM1"), ("MessageStatus", "sent"), ("ErrorCode", "")]
VENDOR = RequestValidator(AUTH_TOKEN)


def signed_by(
    secret: str, url: str = URL, form: list[tuple[str, str]] = FORM, algorithm: str = "HMAC_SHA1"
) -> str:
    return str(RequestValidator(secret).compute_signature(url, dict(form), algorithm))


def verified(
    signature: str | None,
    url: str = URL,
    form: list[tuple[str, str]] = FORM,
    *,
    secrets: tuple[str, ...] = (AUTH_TOKEN,),
    settings: str | None = None,
) -> bool:
    headers = {}
    if signature is not None:
        headers["x-twilio-signature"] = signature
    if settings is not None:
        headers["x-twilio-webhooks-signature-settings"] = settings
    return is_signed(url, headers, urlencode(form).encode(), form, secrets=secrets)


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


@given(st.dictionaries(names, names, min_size=1, max_size=6))
def test_what_the_vendor_signs_is_verified(form: dict[str, str]) -> None:
    pairs = list(form.items())
    assert verified(signed_by(AUTH_TOKEN, form=pairs), form=pairs)


@pytest.mark.parametrize("signature", [None, "", "x", signed_by("another token"), "\u00e9"])
def test_any_other_signature_is_refused(signature: str | None) -> None:
    assert not verified(signature)


def test_a_value_that_changed_is_refused() -> None:
    changed = [(name, "delivered" if value == "sent" else value) for name, value in FORM]
    assert not verified(signed_by(AUTH_TOKEN), form=changed)


def test_another_address_is_refused() -> None:
    assert not verified(signed_by(AUTH_TOKEN, url="https://hooks.school.example/other"))
    assert not verified(signed_by(AUTH_TOKEN, url=URL.replace("https", "http")))


def test_blank_values_are_signed_like_others() -> None:
    without = [pair for pair in FORM if pair[1]]
    assert not verified(signed_by(AUTH_TOKEN, form=[("Extra", "x"), *without]))
    assert verified(signed_by(AUTH_TOKEN, form=FORM))


@pytest.mark.parametrize(
    ("issued", "others"),
    [
        ("https://h.example/x", ["https://h.example:443/x"]),
        ("http://h.example/x", ["http://h.example:80/x"]),
        ("https://h.example:8443/x", ["https://h.example/x"]),
        ("https://[2001:db8::1]:8443/x", ["https://[2001:db8::1]/x"]),
        ("https://[2001:db8::1]/x", ["https://[2001:db8::1]:443/x"]),
    ],
)
def test_the_port_may_be_signed_or_left_out(issued: str, others: list[str]) -> None:
    assert spellings(issued) == [issued, *others]
    for url in spellings(issued):
        assert verified(signed_by(AUTH_TOKEN, url=url), url=issued)
    assert not verified(signed_by(AUTH_TOKEN, url="https://h.example:9/x"), url=issued)


def test_every_accepted_secret_verifies_while_one_is_being_replaced() -> None:
    old, new = "0" * 32, "1" * 32
    assert all(verified(signed_by(each), secrets=(new, old)) for each in (old, new))
    assert not verified(signed_by(old), secrets=(new,))
    assert not verified(signed_by(""), secrets=())


@pytest.mark.parametrize("settings", ["key=k,algorithm=HMAC_SHA256", "algorithm = HMAC_SHA256"])
def test_the_algorithm_is_the_one_that_the_request_names(settings: str) -> None:
    sha256 = signed_by(AUTH_TOKEN, algorithm="HMAC_SHA256")
    assert verified(sha256, settings=settings)
    assert not verified(sha256)
    assert not verified(signed_by(AUTH_TOKEN), settings=settings)


def test_an_algorithm_that_nobody_knows_is_refused() -> None:
    assert not verified(signed_by(AUTH_TOKEN), settings="key=k,algorithm=NONE")


def test_a_body_that_is_no_form_is_signed_by_its_digest() -> None:
    body = b'{"MessageStatus": "sent"}'
    url = f"{URL}?bodySHA256={hashlib.sha256(body).hexdigest()}"
    headers = {"x-twilio-signature": str(VENDOR.compute_signature(url, {}))}
    assert is_signed(url, headers, body, [], secrets=[AUTH_TOKEN])
    assert not is_signed(url, headers, body + b" ", [], secrets=[AUTH_TOKEN])
    unnamed = {"x-twilio-signature": str(VENDOR.compute_signature(URL, {}))}
    assert not is_signed(URL, unnamed, body, [], secrets=[AUTH_TOKEN])


@pytest.mark.parametrize(
    ("query", "form", "issued"),
    [
        ("", FORM, True),
        ("?ErrorCode=1", FORM, False),
        ("?bodySHA256=ab", FORM, False),
        ("?bodySHA256=ab", [], True),
        ("?bodySHA256=ab&x=", [], False),
        ("", [], False),
    ],
)
def test_the_query_is_the_one_that_was_issued(
    query: str, form: list[tuple[str, str]], issued: bool
) -> None:
    assert is_issued(URL + query, form) is issued
