"""Header values that hold exactly what they were given (RFC 2047, RFC 5322)."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.headerregistry import AddressHeader

CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What may stand in no header value: line breaks in every guise, and other controls."""

PLAIN_MAX_OCTETS = 900
"""A value in ASCII left on one line; a line has at most 998 octets (RFC 5322 section 2.1.1)."""

NAME_MAX_OCTETS = 300
"""A display name left on one line, where each octet may become two and an address follows."""

_WORD_MAX = 45  # octets whose encoded-word stays within the 75 characters of RFC 2047 section 2
_PHRASE = re.compile("[A-Za-z0-9]+(?: [A-Za-z0-9]+)*")
_QUOTED_PAIR = re.compile(r'(["\\])')


def write_text(text: str) -> bytes:
    """Return a header value that decodes to exactly *text*, on one logical line.

    What could be read as an encoded-word is encoded itself: ``=?utf-8?q?Hi=0ABcc:_x?=`` is a text
    that looks odd, not a second header. Raises ``ValueError``, which does not quote the text.
    """
    if CONTROLS.search(text):
        raise ValueError("a line break or control character")
    return text.encode("ascii") if _plain(text) else _encoded(text)


def write_mailbox(name: str, display_name: str, address: str) -> bytes:
    """Return the header line ``name: display_name <address>``, CRLF included.

    Whatever the display name holds, a reader finds exactly this one mailbox under exactly this name.
    Raises ``ValueError``, which quotes neither.
    """
    if CONTROLS.search(display_name):
        raise ValueError("a display name cannot hold line breaks or control characters")
    if not address.isascii():
        raise ValueError("the address of a header must be ASCII")
    header = name.encode("ascii")
    line = b"%b: %b<%b>\r\n" % (header, _phrase(display_name), address.encode("ascii"))
    # The proof: serialise, read back, compare. Display names are how a second address is smuggled in.
    read = [(_without_blanks(shown), found) for shown, found in _mailboxes(name, line)]
    if read != [(_without_blanks(display_name), address)]:
        raise ValueError("the display name would be read as something else than a name")
    return line


def _phrase(name: str) -> bytes:
    if len(name) > NAME_MAX_OCTETS:
        return _encoded(name) + b" "
    if not name or _PHRASE.fullmatch(name):
        return name.encode("ascii") + b" " * bool(name)
    if _plain(name):
        return b'"%b" ' % _QUOTED_PAIR.sub(r"\\\1", name).encode("ascii")
    return _encoded(name) + b" "


def _plain(text: str) -> bool:
    short = len(text) <= PLAIN_MAX_OCTETS
    return text.isascii() and short and "=?" not in text and text == text.strip()


def _encoded(text: str) -> bytes:
    return b"\r\n ".join(b"=?utf-8?b?%b?=" % b64encode(word) for word in _words(text.encode()))


def _words(octets: bytes) -> Iterator[bytes]:
    """Cut UTF-8 between characters (RFC 2047 section 5 forbids to cut within one)."""
    while octets:
        end = _WORD_MAX
        while end < len(octets) and octets[end] & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation octet
            end -= 1
        yield octets[:end]
        octets = octets[end:]


def _without_blanks(text: str) -> str:
    """Return *text* to be compared: the reader of Python 3.11 puts blanks between the words of a long name.

    RFC 2047 section 6.2 has them ignored, and readers do.
    """
    return text.replace(" ", "")


def _mailboxes(name: str, line: bytes) -> list[tuple[str, str]]:
    read = message_from_bytes(line + b"\r\n", policy=policy.default)
    values = read.values() if read.keys() == [name] else []
    return [
        (address.display_name, address.addr_spec)
        for value in values
        if isinstance(value, AddressHeader)
        for address in value.addresses
    ]
