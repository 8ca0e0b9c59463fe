"""The destination_phone, sms_body and callback_security cases: what is refused, counted and believed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import phonenumbers
import pytest
import yaml

from sendledger.content import compile_template
from sendledger.plugin import (
    Addressee,
    CallbackRefused,
    CallbackRequest,
    Content,
    ContentFault,
    Destination,
    DestinationRefused,
    Outcome,
    Secret,
)
from sendledger_twilio.callback import read_callback
from sendledger_twilio.message import compile_content
from sendledger_twilio.numbers import read_destination
from sendledger_twilio.segments import measure
from sms_kit import ACCOUNT, INPUTS, PLEASANT, TOKEN, judge_later, settings_for

ALTERNATIVES = yaml.safe_load((Path(__file__).parent / "alternatives.yaml").read_text())
CASES = {case["id"]: case for case in yaml.safe_load((INPUTS / "cases.yaml").read_text())["cases"]}
ANYWHERE = phonenumbers.SUPPORTED_REGIONS


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = CASES[name]["expected"]
    return found


def read(text: str, region: str | None = None) -> Destination:
    return read_destination(text, countries=ANYWHERE, default_region=region)


def refused(text: str, region: str | None = None) -> str:
    with pytest.raises(DestinationRefused) as caught:
        read(text, region)
    assert text not in str(caught.value)
    return caught.value.reason


# --- numbers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", CASES["tel-01"]["input_inline"])
def test_tel_01_a_number_with_an_extension_is_refused_before_anything_is_planned(text: str) -> None:
    wanted = expected("tel-01")
    assert (wanted["accepted"], wanted["submissions"]) == (False, 0)
    assert refused(text) == refused(text, "US") == wanted["reason"]


def test_tel_02_both_spellings_of_a_mexican_number_are_one_destination() -> None:
    wanted = expected("tel-02")
    found = {read(text) for text in CASES["tel-02"]["input_inline"]}
    assert {each.address for each in found} == {wanted["e164"]}
    assert len({read(text).canonical for text in wanted["same_fingerprint"]}) == 1
    obsolete = phonenumbers.parse("+52 1 222 123 4567")
    assert phonenumbers.is_valid_number(obsolete) == wanted["libphonenumber_valid_for_+521"]


def test_tel_03_three_spellings_of_an_argentine_telephone_share_one_key() -> None:
    wanted = expected("tel-03")
    keys = {
        read(re.sub(r" \(.*", "", text), "AR").canonical
        for text in (*wanted["match_key_equal"], *CASES["tel-03"]["input_inline"])
    }
    assert (wanted["accepted"], len(keys)) == (True, 1)
    for text, kind in wanted["type"].items():
        number = phonenumbers.parse(text)
        assert phonenumbers.number_type(number) == getattr(phonenumbers.PhoneNumberType, kind)
        assert read(text).address == "+" + re.sub(r"\D", "", text)


@pytest.mark.parametrize("text", CASES["tel-04"]["expected"]["applies_to"])
@pytest.mark.parametrize("region", [None, "US", "DE"])
def test_tel_04_a_short_code_gets_no_country_code_glued_on(text: str, region: str | None) -> None:
    wanted = expected("tel-04")
    assert (wanted["accepted"], wanted["submissions"]) == (False, 0)
    assert refused(text, region) == wanted["reason"]


def test_tel_05_a_kind_that_nobody_can_tell_is_no_reason_to_refuse() -> None:
    american, german = CASES["tel-05"]["input_inline"]
    wanted = expected("tel-05")
    assert read(american).address == "+12025550143"
    assert phonenumbers.number_type(phonenumbers.parse(american)) == getattr(
        phonenumbers.PhoneNumberType, wanted[american]["type"]
    )
    assert read(german).address == "+493023125001"
    assert wanted["hard_block"] is False
    assert "accepted" in ALTERNATIVES["tel-05"][german]["answer"]


# --- bodies ------------------------------------------------------------------------------------------


def test_seg_01_two_typographic_characters_double_the_segments_and_are_named() -> None:
    text, wanted = CASES["seg-01"]["input_inline"], expected("seg-01")
    size = measure(text)
    assert (size.encoding, size.units, size.segments) == (
        wanted["encoding"],
        wanted["units"],
        wanted["segments"],
    )
    plain, variant = written(text, smart_encoding=True), wanted["plain_ascii_variant"]
    size = measure(plain)
    assert plain.isascii()
    assert (size.encoding, size.units, size.segments) == (
        variant["encoding"],
        variant["units"],
        variant["segments"],
    )
    with pytest.raises(ContentFault) as caught:
        written(text, smart_encoding=False)
    assert all(each in str(caught.value) for each in wanted["warn_non_gsm_characters"])


def written(text: str, *, smart_encoding: bool) -> str:
    """Return the body as one segment at most."""
    content = Content(
        revision="5e" * 32, parts={"text": compile_template("{{text}}", name="text", html=False)}
    )
    writer = compile_content(content, segments_max=1, smart_encoding=smart_encoding)
    whom = Addressee(
        intent_key="1f" * 16,
        attempt_number=1,
        token=TOKEN,
        destination=PLEASANT,
        variables={"text": text},
    )
    return writer.write(whom).decode()


def test_seg_02_the_extension_table_counts_double_in_gsm_only() -> None:
    size, wanted = measure(CASES["seg-02"]["input_inline"]), expected("seg-02")
    assert {"encoding": size.encoding, "units": size.units, "segments": size.segments} == wanted


def test_seg_03_emoji_are_two_units_and_are_not_split() -> None:
    assert CASES["seg-03"]["input_inline"] == "U+1F60E repeated 70 times"
    size, wanted = measure("\U0001f60e" * 70), expected("seg-03")
    assert {"encoding": size.encoding, "units": size.units, "segments": size.segments} == wanted


# --- signatures --------------------------------------------------------------------------------------


def requests_of(name: str) -> list[CallbackRequest]:
    """Return the requests of a case, under the public address and the path as it was received."""
    given = yaml.safe_load((INPUTS / CASES[name]["input"]).read_text())
    variants = [each["headers"] for each in given.get("variants", [given])]
    return [
        CallbackRequest(
            token=given["path"].rpartition("/")[2],
            url=f"{given['public_base_url']}{given['path']}",
            headers={
                "content-type": given["content_type"],
                **{name.lower(): value for name, value in headers.items()},
            },
            body=given["body"].encode(),
        )
        for headers in variants
    ]


def test_sec_01_the_address_is_the_public_one_whatever_the_socket_saw() -> None:
    [request] = requests_of("sec-01")
    receipt = read_callback(request, settings_for(account_sid=ACCOUNT))
    assert judge_later(receipt.evidence).outcome is Outcome.DELIVERED
    assert expected("sec-01") == {"http_status": "2xx", "signature_valid": True}


def test_sec_02_without_a_signature_nothing_is_read_and_without_a_token_nothing_starts() -> None:
    [request] = requests_of("sec-02")
    with pytest.raises(CallbackRefused) as caught:
        read_callback(request, settings_for())
    assert caught.value.status == expected("sec-02")["http_status"]
    assert expected("sec-02")["state_change"] is False
    assert expected("sec-02")["startup"].startswith("error")
    with pytest.raises(ValueError, match=r"auth_token\s+Field required"):
        settings_for(auth_token=None)


def test_sec_03_the_port_may_be_signed_or_left_out_and_nothing_else() -> None:
    with_port, without = requests_of("sec-03")
    assert expected("sec-03")["http_status"] == "2xx"
    assert len(expected("sec-03")["applies_to"]) == 2
    for request in (with_port, without):
        assert read_callback(request, settings_for()).evidence.answered
        with pytest.raises(CallbackRefused):
            read_callback(request, settings_for(auth_token=Secret("0" * 32)))
