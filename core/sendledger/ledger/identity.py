"""Identity: the intent key and the keyed fingerprints of what a ledger must not hold in the clear.

Every digest is over length-prefixed parts, so that ("ab", "c") and ("a", "bc") differ, and every one
is keyed: recipient ids, addresses and telephone numbers are too few to hide behind a plain hash.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

KEY_VERSION = "1"
KEY_BYTES = 16
_PARTS = ("report", "recipient", "channel", "revision")
_JSON = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class IdentityError(ValueError):
    """A part of an identity is empty or holds control characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What makes two intents the same: one per report, recipient, channel and content revision.

    ``correction`` stays 0 until a person corrects the destination of a failed intent.
    """

    report: str
    recipient: str
    channel: str
    revision: str
    correction: int = 0


def intent_key(key: bytes, identity: Identity) -> bytes:
    """Return the 16-byte intent key; it never expires.

    Raises :class:`IdentityError` naming the part that cannot be an identity.
    """
    parts = [identity_text(name, getattr(identity, name)) for name in _PARTS]
    return keyed(key, KEY_VERSION, *parts, str(identity.correction))


class IntentKeys:
    """The intent keys of one report, channel and revision: what recipients share is worked out once.

    Each is what :func:`intent_key` returns. Raises :class:`IdentityError` as it does.
    """

    def __init__(self, key: bytes, *, report: str, channel: str, revision: str) -> None:
        self._keyed = Keyed(
            key,
            KEY_VERSION,
            identity_text("report", report),
            last=(identity_text("channel", channel), identity_text("revision", revision), "0"),
        )

    def of(self, recipient: str) -> bytes:
        """Return the intent key of *recipient*."""
        return self._keyed.of(identity_text("recipient", recipient))

    def each_clean(self, recipients: Iterable[str]) -> list[bytes]:
        """Return the intent key of each of *recipients*, which :func:`identity_text` returned."""
        return self._keyed.each(recipients)


def identity_text(name: str, text: str) -> str:
    """Return *text* in NFC without surrounding space.

    Raises :class:`IdentityError` when nothing is left or a control character is inside (a NUL would
    let two different identities look the same to something downstream) or half of a surrogate pair.
    """
    clean = unicodedata.normalize("NFC", text).strip()
    if not clean:
        raise IdentityError(f"{name} is empty")
    if clean.isascii() and clean.isprintable():
        return clean
    if any(unicodedata.category(c) in {"Cc", "Cs"} for c in clean):
        raise IdentityError(f"{name} holds a control character")
    return clean


def keyed(key: bytes, *parts: str) -> bytes:
    """Return a 16-byte digest over length-prefixed *parts*, keyed with *key* of at most 64 bytes.

    BLAKE2b (RFC 7693), which is a MAC by itself. A planned row has four: as HMAC they cost three times
    as much.
    """
    return hashlib.blake2b(_framed(parts), digest_size=KEY_BYTES, key=key).digest()


class Keyed:
    """:func:`keyed` for many that share their key, their first parts and their *last*; asked at half its price."""

    def __init__(self, key: bytes, *first: str, last: Sequence[str] = ()) -> None:
        self._first = hashlib.blake2b(_framed(first), digest_size=KEY_BYTES, key=key)
        self._last = _framed(last)

    def of(self, *parts: str) -> bytes:
        """Return the digest over the first parts, *parts* and the last."""
        digest = self._first.copy()
        for octets in map(str.encode, parts):
            digest.update(len(octets).to_bytes(4, "big") + octets)
        digest.update(self._last)
        return digest.digest()

    def each(self, texts: Iterable[str]) -> list[bytes]:
        """Return for each of *texts* what :meth:`of` does."""
        copy, last = self._first.copy, self._last
        digests = []
        for octets in map(str.encode, texts):
            digest = copy()
            digest.update(len(octets).to_bytes(4, "big") + octets + last)
            digests.append(digest.digest())
        return digests


def content_digest(key: bytes, *, template_revision: str, variables: Mapping[str, Any]) -> bytes:
    """Return the 16-byte digest of what one recipient would read: the template and its variables."""
    return keyed(key, template_revision, variables_text(variables))


def variables_text(variables: Mapping[str, Any]) -> str:
    """Return *variables* as the JSON that is digested, the same in whatever order they are given.

    Raises ``TypeError``, ``ValueError`` or ``RecursionError`` for what JSON cannot hold.
    """
    return _JSON.encode(variables)


def _framed(parts: Iterable[str]) -> bytes:
    return b"".join([len(octets).to_bytes(4, "big") + octets for octets in map(str.encode, parts)])


def seal(key: bytes, intent_id: int, *parts: object) -> bytes:
    """Return the 8-byte seal of a ledger row: its place and its content, keyed.

    A row moved to another seq, or changed by hand, no longer fits its seal. Parts are told apart by
    their lengths, and None from the empty text. BLAKE2b (RFC 7693) because it is keyed by itself and
    costs under a microsecond.
    """
    framed = "".join(
        [
            "-" if part is None else f"{len(text := str(part))}:{text}"
            for part in (intent_id, *parts)
        ]
    )
    return hashlib.blake2b(framed.encode(), digest_size=8, key=key[:64]).digest()
