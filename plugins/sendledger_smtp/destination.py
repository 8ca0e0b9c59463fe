"""Email addresses: one plain addr-spec, or a refusal that does not repeat it."""

from __future__ import annotations

import re
from functools import lru_cache

from email_validator import EmailNotValidError, ValidatedEmail, validate_email

from sendledger.plugin import Destination, DestinationRefused

LOCAL_MAX_OCTETS = 64
ADDRESS_MAX_OCTETS = 254
"""RFC 5321 section 4.5.3.1: a path has 256 octets, angle brackets included."""

REASON = "invalid_address"
_REMEDY = "write one plain address such as name@school.test, without a name, quotes or comments"
_TOO_LONG = "a local part has at most 64 octets, an address at most 254"


# RFC 5322 section 3.2.3, "dot-atom" in ASCII.
_ATEXT = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_DOT_ATOM = re.compile(rf"{_ATEXT}(?:\.{_ATEXT})*")
_DOMAINS_MAX = 4096


def read_destination(text: str) -> Destination:
    """Return the address in the one spelling that we store, compare and put on the wire.

    The local part is opaque (RFC 5321 section 2.3.11): its case and tags stay, only its Unicode is
    composed (RFC 6532 section 3.1); the role names of RFC 2142 alone are in lower case. The domain becomes
    an A-label in lower case. Quoted local parts and address literals are refused: they are how one
    address is made to look like another. Raises :class:`DestinationRefused`.
    """
    return _read_plain(text) or _read_any(text)


def _read_plain(text: str) -> Destination | None:
    """Return what :func:`_read_any` would, for the many addresses whose local part needs no second look.

    None where it is not plain to see: the answer may then be an address or a refusal.
    """
    local, _, domain = text.partition("@")
    plain = _plain_domain(domain)
    if plain is None or len(text) > ADDRESS_MAX_OCTETS or len(local) > LOCAL_MAX_OCTETS:
        return None
    # A role name in capitals would be written in lower case; all of them are letters only.
    if not _DOT_ATOM.fullmatch(local) or (local.isalpha() and not local.islower()):
        return None
    address = f"{local}@{plain}"
    return Destination(address, address, plain)  # by place: names cost as much as the rest


@lru_cache(_DOMAINS_MAX)
def _plain_domain(domain: str) -> str | None:
    """Return *domain* as it is stored, None unless it is ASCII and as long before as after."""
    if not domain.isascii():
        return None
    try:
        read = _validate(f"a@{domain}")
    except EmailNotValidError:
        return None
    plain = read.ascii_domain == read.domain and len(read.domain) == len(domain)
    return read.ascii_domain.lower() if plain else None


def _read_any(text: str) -> Destination:
    try:
        read = _validate(text)
    except EmailNotValidError:
        raise DestinationRefused(REASON, _REMEDY) from None
    domain = read.ascii_domain.lower()
    address = f"{read.local_part}@{domain}"
    if (
        len(read.local_part.encode()) > LOCAL_MAX_OCTETS
        or len(address.encode()) > ADDRESS_MAX_OCTETS
    ):
        raise DestinationRefused(REASON, _TOO_LONG)
    return Destination(address=address, canonical=address, domain=domain)


def _validate(text: str) -> ValidatedEmail:
    return validate_email(
        text,
        allow_smtputf8=True,
        allow_quoted_local=False,
        allow_domain_literal=False,
        allow_display_name=False,
        check_deliverability=False,
        test_environment=True,
        strict=True,
    )
