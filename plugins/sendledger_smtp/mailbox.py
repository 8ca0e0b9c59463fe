"""A header that holds one mailbox, proved by reading it back."""

from __future__ import annotations

import re
from email import message_from_bytes, policy
from email.headerregistry import Address, AddressHeader
from email.message import EmailMessage

CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What may stand in no header value: line breaks in every guise, and other controls."""


def write_mailbox(name: str, display_name: str, address: str) -> bytes:
    """Return the header line ``name: display_name <address>``, folded, CRLF included.

    Whatever the display name holds, a reader finds exactly this one mailbox under exactly this name.
    Raises ``ValueError``, which quotes neither.
    """
    if CONTROLS.search(display_name) or CONTROLS.search(address):
        raise ValueError("a display name cannot hold line breaks or control characters")
    header = EmailMessage(policy=policy.SMTP)
    try:
        header[name] = Address(display_name, addr_spec=address)
        line = header.as_bytes().removesuffix(b"\r\n")
    except (ValueError, IndexError):
        # email.errors' own texts repeat what they were given.
        raise ValueError("the display name or address cannot be written as one mailbox") from None
    if _mailboxes(name, line) != [(display_name, address)]:
        raise ValueError("the display name would be read as something else than a name")
    return line


def _mailboxes(name: str, line: bytes) -> list[tuple[str, str]]:
    read = message_from_bytes(line + b"\r\n", policy=policy.default)
    values = read.get_all(name, [])
    return [
        (address.display_name, address.addr_spec)
        for value in values
        if isinstance(value, AddressHeader)
        for address in value.addresses
        if len(read.keys()) == 1 and not read.defects
    ]
