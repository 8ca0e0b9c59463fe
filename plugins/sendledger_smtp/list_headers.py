"""Headers for those who receive much: how to leave a list, and what complaints are counted under."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import quote, urlsplit

from sendledger_smtp.destination import read_destination

URL_MAX = 500
"""Room for a token behind it on a line of 998 octets (RFC 5322 section 2.1.1)."""

FEEDBACK_ID = re.compile(r"[A-Za-z0-9._-]{5,15}")
"""The sender's field of Feedback-ID: 5 to 15 characters (Gmail, "Feedback Loop")."""

# RFC 3986 without what would end the URL within a header or open a query of the token's own.
_URL = re.compile(r"https?://[A-Za-z0-9._~:/\[\]@!$&'()*+=%-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsubscribe:
    """Where somebody leaves: a URL before the token, and an address for readers without one-click."""

    url: str
    mailto: str | None = None

    def headers(self, token: bytes) -> bytes:
        """Return List-Unsubscribe and its promise that one POST is enough (RFC 2369, RFC 8058)."""
        header = b"List-Unsubscribe: <%b/%b>" % (self.url.encode("ascii"), token)
        if self.mailto is not None:
            header += b",\r\n <mailto:%b?subject=%b>" % (self.mailto.encode("ascii"), token)
        return header + b"\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"


def read_url(text: str) -> str:
    """Return the URL under which tokens are taken, without a slash at its end. Raises ``ValueError``.

    RFC 8058 section 3.1 asks for HTTPS; plain HTTP is for this very machine.
    """
    url = text.rstrip("/")
    if _URL.fullmatch(url) is None or len(url) > URL_MAX:
        raise ValueError(
            f"expected a URL without a query, such as https://send.school.test/unsubscribe,"
            f" of at most {URL_MAX} characters"
        )
    parts = urlsplit(url)
    if not parts.hostname or "@" in parts.netloc:
        raise ValueError("expected a URL with a host name and without a user")
    if parts.scheme != "https" and not _loopback(parts.hostname):
        raise ValueError("expected https:// (RFC 8058); http:// is for loopback hosts only")
    return url


def read_mailto(text: str) -> str:
    """Return the address as it stands in a mailto URL. Raises ``ValueError``, which does not quote it."""
    try:
        address = read_destination(text).address
    except ValueError:
        address = ""
    if not address.isascii() or not address:
        raise ValueError("expected a plain ASCII address such as leave@school.test")
    return quote(address, safe="@!$'*+-._~")


def feedback_id(campaign: str | None, sender: str) -> bytes:
    """Return Feedback-ID, whose fields are counted from its end: the same for all of a campaign."""
    fields = [campaign, sender] if campaign else [sender]
    return b"Feedback-ID: %b\r\n" % ":".join(fields).encode("ascii")


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
