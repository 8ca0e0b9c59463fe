"""Telephone numbers: one spelling for each, and refusals that repeat nothing."""

from __future__ import annotations

import pytest

from sendledger.plugin import Destination, DestinationRefused
from sendledger_twilio.numbers import read_destination
from sendledger_twilio.senders import choose_sender

EVERYWHERE = frozenset({"US", "PR", "CA", "MX", "AR", "DE", "GB", "CI"})


def read(text: str, region: str | None = None) -> Destination:
    return read_destination(text, countries=EVERYWHERE, default_region=region)


@pytest.mark.parametrize(
    ("text", "region", "address", "country"),
    [
        ("+12025550143", None, "+12025550143", "US"),
        (" +1 (202) 555-0143 ", None, "+12025550143", "US"),
        ("(202) 555.0143", "US", "+12025550143", "US"),
        ("001 202 555 0143", "DE", "+12025550143", "US"),
        ("+1 787 555 0143", None, "+17875550143", "PR"),
        ("+44 7400 123456", None, "+447400123456", "GB"),
        ("030 23125 001", "DE", "+493023125001", "DE"),
        ("+52 1 222 123 4567", None, "+522221234567", "MX"),
        ("+54 9 11 2345 6789", None, "+5491123456789", "AR"),
        ("+225 07 07 12 34 56", None, "+2250707123456", "CI"),
    ],
)
def test_a_number_has_one_spelling(
    text: str, region: str | None, address: str, country: str
) -> None:
    found = read(text, region)
    assert (found.address, found.domain) == (address, country)
    assert read(found.address) == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "invalid_number"),
        ("nobody", "invalid_number"),
        ("303 555 0143", "invalid_number"),
        ("+1 303 555 014", "invalid_number"),
        ("+1 303 555 01433", "invalid_number"),
        ("+1-800-FLOWERS", "invalid_number"),
        ("+1 202 555 0143 and more", "invalid_number"),
        ("+12025550143;", "invalid_number"),
        ("+1202555\u202e0143", "invalid_number"),
        ("+12025550143\n+12025550144", "invalid_number"),
        ("+１２０２５５５０１４３", "invalid_number"),  # noqa: RUF001
        ("+1" + "2" * 1000, "invalid_number"),
        ("+999 12345678", "invalid_number"),
        ("+1 202 555 0143 x5", "extension_not_sms_capable"),
        ("tel:+12025550143;ext=5", "extension_not_sms_capable"),
        ("+12025550143,,5", "extension_not_sms_capable"),
        ("32665", "short_code_not_a_destination"),
        ("+132665", "short_code_not_a_destination"),
        ("+1 800 555 0199", "number_kind_refused"),
        ("+1 900 555 0199", "number_kind_refused"),
        ("+15005550006", "number_kind_refused"),
        ("+225 07 12 34 56", "obsolete_number"),
        ("+33 6 12 34 56 78", "country_not_allowed"),
        ("+1 340 555 0143", "country_not_allowed"),
    ],
)
def test_what_is_no_destination_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(DestinationRefused) as caught:
        read(text)
    assert caught.value.reason == reason
    assert caught.value.__cause__ is None
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize("text", ["911", "112", "32665"])
def test_short_numbers_are_refused_in_their_own_country_too(text: str) -> None:
    with pytest.raises(DestinationRefused, match="short_code_not_a_destination"):
        read(text, "US")


def test_all_spellings_of_a_telephone_share_one_key() -> None:
    argentine = ["+54 9 11 2345 6789", "+54 11 2345 6789"]
    keys = {read(text).canonical for text in argentine} | {read("011 15-2345-6789", "AR").canonical}
    assert keys == {"+541123456789"}
    assert read("+52 1 222 123 4567").canonical == read("+52 222 123 4567").canonical


# --- senders -------------------------------------------------------------------------------------

SENDERS = tuple(f"+1500555{n:04}" for n in range(5))
PEOPLE = [f"+120255501{n:02}" for n in range(100)]


def test_a_conversation_keeps_its_number() -> None:
    assert all(choose_sender(SENDERS, to) == choose_sender(SENDERS[::-1], to) for to in PEOPLE)


def test_every_sender_gets_a_share() -> None:
    assert {choose_sender(SENDERS, to) for to in PEOPLE} == set(SENDERS)


def test_one_sender_more_moves_only_those_it_takes_over() -> None:
    more = (*SENDERS, "+15005559999")
    moved = [to for to in PEOPLE if choose_sender(more, to) != choose_sender(SENDERS, to)]
    assert moved
    assert {choose_sender(more, to) for to in moved} == {"+15005559999"}
