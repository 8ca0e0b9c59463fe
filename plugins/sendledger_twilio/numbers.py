"""Telephone numbers: one spelling in E.164 for each, or a refusal that does not repeat it."""

from __future__ import annotations

import re
from collections.abc import Collection

import phonenumbers
from phonenumbers import NumberParseException, PhoneNumber, PhoneNumberFormat, PhoneNumberType

from sendledger.plugin import Destination, DestinationRefused

INVALID = "invalid_number"
EXTENSION = "extension_not_sms_capable"
SHORT_CODE = "short_code_not_a_destination"
KIND = "number_kind_refused"
COUNTRY = "country_not_allowed"
OBSOLETE = "obsolete_number"

LENGTH_MAX = 40
SHORT_CODE_DIGITS_MAX = 6

REFUSED_KINDS = frozenset(
    {
        PhoneNumberType.PREMIUM_RATE,
        PhoneNumberType.TOLL_FREE,
        PhoneNumberType.SHARED_COST,
        PhoneNumberType.PERSONAL_NUMBER,
        PhoneNumberType.PAGER,
        PhoneNumberType.UAN,
        PhoneNumberType.VOICEMAIL,
    }
)
"""Kinds that no person reads an SMS on, or that cost whoever writes to them."""

_SPELLING = re.compile(r"\+?[0-9 ().\u00a0/-]+")
_DIGIT = re.compile(r"[0-9]")
_MEXICO_MOBILE = re.compile(r"1([0-9]{10})")
_ARGENTINA_MOBILE = re.compile(r"\+549([0-9]{10})")
_IVORY_COAST_OLD_DIGITS = 8

_REMEDY = "write the number with + and the country code, such as +1 202 555 0143"


def read_destination(
    text: str, *, countries: Collection[str], default_region: str | None = None
) -> Destination:
    """Return the number in E.164; ``domain`` is its country, ``canonical`` what all its spellings share.

    Without + and country code it is read as in *default_region*. Refused are numbers outside of
    *countries*, with an extension, and kinds that no person reads an SMS on. Whether a plausible number is
    a mobile one is for the carrier to say: in many countries nobody can tell. Raises
    :class:`DestinationRefused`.
    """
    number = _current(_parse(text.strip(), default_region))
    kind, country = phonenumbers.number_type(number), phonenumbers.region_code_for_number(number)
    if kind in REFUSED_KINDS:
        raise DestinationRefused(KIND, "write the number of a person's own telephone")
    if country not in countries:
        raise DestinationRefused(COUNTRY, "add its country to the channel's countries, if meant")
    address = phonenumbers.format_number(number, PhoneNumberFormat.E164)
    return Destination(address=address, canonical=match_key(address), domain=country)


def match_key(address: str) -> str:
    """Return what a number in E.164 is compared by.

    In Argentina the 9 of a mobile number belongs to the call rather than to the number: one telephone is
    known with it and without.
    """
    return _ARGENTINA_MOBILE.sub(r"+54\1", address)


def _parse(text: str, region: str | None) -> PhoneNumber:
    plain = len(text) <= LENGTH_MAX and _SPELLING.fullmatch(text)
    try:
        number = phonenumbers.parse(text[:LENGTH_MAX], region)
    except NumberParseException:
        short = plain and len(_DIGIT.findall(text)) <= SHORT_CODE_DIGITS_MAX
        raise (_short_code() if short else _invalid()) from None
    if number.extension is not None:
        raise DestinationRefused(EXTENSION, "write the number without an extension")
    if not plain:
        raise _invalid()
    return number


def _current(number: PhoneNumber) -> PhoneNumber:
    """Return *number* as it is dialled today. Raises :class:`DestinationRefused` where there is none."""
    national = phonenumbers.national_significant_number(number)
    if number.country_code == 52 and (old := _MEXICO_MOBILE.fullmatch(national)):  # noqa: PLR2004
        # Since August 2019 the 1 before mobile numbers is dialled by nobody (IFT, Mexico).
        number = PhoneNumber(country_code=52, national_number=int(old[1]))
    if phonenumbers.is_valid_number(number):
        return number
    if number.country_code == 225 and len(national) == _IVORY_COAST_OLD_DIGITS:  # noqa: PLR2004
        # Since January 2021 a prefix tells the operator (ARTCI); the old digits do not tell it for sure.
        raise DestinationRefused(OBSOLETE, "write the ten digits that the number has since 2021")
    if len(national) <= SHORT_CODE_DIGITS_MAX:
        raise _short_code()
    raise _invalid()


def _invalid() -> DestinationRefused:
    return DestinationRefused(INVALID, _REMEDY)


def _short_code() -> DestinationRefused:
    return DestinationRefused(SHORT_CODE, "short and emergency numbers receive no messages of ours")
