"""Email addresses: one plain addr-spec, or a refusal that does not repeat it."""

from __future__ import annotations

from email_validator import EmailNotValidError, validate_email

from sendledger.plugin import Destination, DestinationRefused

LOCAL_MAX_OCTETS = 64
ADDRESS_MAX_OCTETS = 254
"""RFC 5321 section 4.5.3.1: a path has 256 octets, angle brackets included."""

REASON = "invalid_address"
_REMEDY = "write one plain address such as name@school.test, without a name, quotes or comments"
_TOO_LONG = "a local part has at most 64 octets, an address at most 254"


def read_destination(text: str) -> Destination:
    """Return the address in the one spelling that we store, compare and put on the wire.

    The local part is opaque (RFC 5321 section 2.3.11): its case and tags stay, only its Unicode is
    composed (RFC 6532 section 3.1). The domain becomes an A-label in lower case. Quoted local parts
    and address literals are refused: they are how one address is made to look like another.
    Raises :class:`DestinationRefused`.
    """
    try:
        read = validate_email(
            text,
            allow_smtputf8=True,
            allow_quoted_local=False,
            allow_domain_literal=False,
            allow_display_name=False,
            check_deliverability=False,
            test_environment=True,
            strict=True,
        )
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
