"""Where a server of ours listens, and the URL under which the world finds it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

PORT_MAX = 65535

_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.IGNORECASE)
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")
_OURSELVES = frozenset({"localhost", "127.0.0.1", "::1"})
_FORM = "expected a URL such as https://hooks.example or https://example.org/notify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen; port 0 takes any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address that *text* writes, such as ``127.0.0.1:9464`` or ``[::1]:9464``.

    Raises ``ValueError``. A host is asked for, so that nothing is open to a network by omission.
    """
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    whole = bare != "" and (bare is not host or ":" not in bare)
    if not (whole and port.isascii() and port.isdecimal() and int(port) <= PORT_MAX):
        raise ValueError("expected HOST:PORT such as 127.0.0.1:9464 or [::1]:9464")
    return Address(host=bare, port=int(port))


def public_url(text: str) -> str:
    """Return *text*, a URL that others call, without a slash at its end. Raises ``ValueError``.

    Signatures are made over it letter by letter, so it is taken as it is written: no query, no user,
    no escapes. In clear only to this machine: a receipt in clear could be read and replaced.
    """
    bare = text.removesuffix("/")
    parts = _split(bare)
    if not _PATH.fullmatch(parts.path) or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"{_FORM}, without user, query or escapes")
    if parts.scheme != "https" and (parts.scheme, parts.hostname in _OURSELVES) != ("http", True):
        raise ValueError("expected https://; http:// is for this machine only, such as localhost")
    return bare


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError(_FORM) from None
    if not host or text != parts.geturl() or not (_HOST.fullmatch(host) or ":" in host):
        raise ValueError(_FORM)
    return parts
