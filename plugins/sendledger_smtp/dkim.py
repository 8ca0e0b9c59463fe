"""DKIM signatures (RFC 6376, RFC 8463), for relays that do not sign themselves.

Written here because a message is signed once for each recipient: dkimpy parses message and key every
time, takes ten times as long to sign with RSA, and needs another library for Ed25519. It verifies what
is written here in the tests.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import field_validator

from sendledger.plugin import Secret, SettingsModel

RSA_BITS_MIN = 1024
"""RFC 8301 section 3.2; 2048 are advised there."""

SIGNED = (
    *(b"from", b"to", b"subject", b"date", b"reply-to", b"message-id", b"mime-version"),
    *(b"content-type", b"content-transfer-encoding", b"auto-submitted", b"feedback-id"),
    # RFC 8058 section 4: without these two under the signature nobody offers the button.
    *(b"list-unsubscribe", b"list-unsubscribe-post"),
)
"""The headers that are signed where there are any (RFC 6376 section 5.4.1)."""

SEALED = (b"from", b"to", b"subject", b"date", b"reply-to")
"""Signed once more than there are, so that no second one can be added (RFC 6376 section 8.15)."""

Key = RSAPrivateKey | Ed25519PrivateKey
Sliced = TypeVar("Sliced", bytes, list[bytes])

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_FIELD_END = re.compile(rb"\r\n(?![ \t])")
_SPACE = re.compile(rb"[ \t]+")
_B64_LINE, _NAMES_LINE = 72, 4


class DkimSettings(SettingsModel):
    """Under which name the public key is published, ``SELECTOR._domainkey.DOMAIN``, and the private key."""

    domain: str
    selector: str
    key: Secret

    @field_validator("domain", "selector")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if _NAME.fullmatch(name) is None:
            raise ValueError("expected a name as in DNS, such as school.test or 2026-1")
        return name.lower()

    @field_validator("key")
    @classmethod
    def _check_key(cls, key: Secret) -> Secret:
        # An empty one stands for a reference that led nowhere, which is told as such.
        if key.reveal():
            read_key(key)
        return key

    def aligned(self, sender_domain: str) -> bool:
        """Whether DMARC may take a signature of this domain for one of the sender (RFC 7489, 3.1.1)."""
        ours, theirs = f".{self.domain}", f".{sender_domain}"
        return ours.endswith(theirs) or theirs.endswith(ours)


def read_key(secret: Secret) -> Key:
    """Return the private key in *secret*. Raises ``ValueError``, which quotes nothing of it."""
    try:
        key = load_pem_private_key(secret.reveal().encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("expected a private key in PEM without a passphrase") from None
    if isinstance(key, RSAPrivateKey) and key.key_size >= RSA_BITS_MIN:
        return key
    if isinstance(key, Ed25519PrivateKey):
        return key
    raise ValueError(f"expected an Ed25519 key, or an RSA key of at least {RSA_BITS_MIN} bits")


class DkimSigner:
    """Signs whole messages, canonicalised as relaxed/relaxed. The same message has the same signature."""

    def __init__(self, settings: DkimSettings) -> None:
        self._key = read_key(settings.key)
        algorithm = b"rsa" if isinstance(self._key, RSAPrivateKey) else b"ed25519"
        self._start = b"v=1; a=%b-sha256; c=relaxed/relaxed;\r\n d=%b;\r\n s=%b;" % (
            algorithm,
            settings.domain.encode("ascii"),
            settings.selector.encode("ascii"),
        )

    def sign(self, message: bytes) -> bytes:
        """Return the header, CRLF included, that goes before *message*, whose line ends are CRLF."""
        head, _, body = message.partition(b"\r\n\r\n")
        fields = dict(_relaxed(field) for field in _FIELD_END.split(head))
        names = list(_signed(fields))
        unsigned = b"%b\r\n h=%b;\r\n bh=%b;\r\n b=" % (
            self._start,
            b":\r\n  ".join(b":".join(line) for line in _lines(names, _NAMES_LINE)),
            b64encode(sha256(_relaxed_body(body)).digest()),
        )
        signature = b64encode(self._signature(_signable(fields, names, unsigned)))
        return b"DKIM-Signature: %b%b\r\n" % (
            unsigned,
            b"\r\n ".join(_lines(signature, _B64_LINE)),
        )

    def _signature(self, signable: bytes) -> bytes:
        if isinstance(self._key, RSAPrivateKey):
            return self._key.sign(signable, padding.PKCS1v15(), SHA256())
        return self._key.sign(sha256(signable).digest())  # RFC 8463 section 3: the digest is signed


def _lines(items: Sliced, count: int) -> Iterator[Sliced]:
    """Yield *items* so many at a time: lines of a header are better short (RFC 5322 section 2.1.1)."""
    for start in range(0, len(items), count):
        yield items[start : start + count]


def _signed(fields: dict[bytes, bytes]) -> Iterator[bytes]:
    for name in SIGNED:
        yield from [name] * ((name in fields) + (name in SEALED))


def _signable(fields: dict[bytes, bytes], names: list[bytes], unsigned: bytes) -> bytes:
    """Return what is signed: a name beyond the fields there are stands for nothing (section 5.4.2)."""
    found = [fields[name] for name in Counter(names) if name in fields]
    _, own = _relaxed(b"DKIM-Signature: " + unsigned)
    return b"\r\n".join([*found, own])


def _relaxed(field: bytes) -> tuple[bytes, bytes]:
    """Return the name of a field, and all of it as section 3.4.2 has it; none of ours comes twice."""
    name, _, value = field.partition(b":")
    name = name.strip().lower()
    return name, b"%b:%b" % (name, _SPACE.sub(b" ", value.replace(b"\r\n", b"")).strip())


def _relaxed_body(body: bytes) -> bytes:
    """Return *body* as section 3.4.4 has it."""
    if b"  " in body or b"\t" in body:
        body = _SPACE.sub(b" ", body)
    body = body.replace(b" \r\n", b"\r\n").rstrip(b"\r\n")
    return body + b"\r\n" if body else b""
