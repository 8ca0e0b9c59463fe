"""The correlation token: what ties a receipt to an attempt whose provider id was never stored.

8-byte intent id, 2-byte attempt number, 1-byte key id, 16-byte MAC: 27 bytes, 44 characters of lower
case base32. Lower case because mail systems fold local parts (RFC 5321 section 2.4 forbids it; they
do it anyway), 44 because ``b+`` and the token must fit a local part of 64 octets.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

LENGTH = 44
_HEAD = struct.Struct(">QHB")
_MAC_BYTES = 16
_PADDING_BITS = 5 * LENGTH - 8 * (_HEAD.size + _MAC_BYTES)
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_DIGITS = str.maketrans(_LETTERS + "0189", "0123456789abcdefghijklmnopqrstuv" + "!!!!")
_SHIFTS = tuple(range(5 * LENGTH - 10, -1, -10))
_PAIRS = tuple(map("".join, product(_LETTERS, repeat=2)))


class TokenRefused(ValueError):  # noqa: N818 - a refusal is the word for it
    """The text is no token of ours; says nothing about why, so that guessing teaches nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """What a verified token names."""

    intent_id: int
    attempt_number: int
    key_id: int


def mint(keys: Mapping[int, bytes], key_id: int, *, intent_id: int, number: int) -> str:
    """Return the token of one attempt under the key *key_id*."""
    head = _HEAD.pack(intent_id, number, key_id)
    return _written(head + _mac(keys[key_id], head))


def read(keys: Mapping[int, bytes], token: str) -> Correlation:
    """Return what *token* names, in whatever letter case it came back.

    Raises :class:`TokenRefused`; the comparison takes the same time for any wrong MAC.
    """
    raw = _read(token)
    head, mac = raw[: _HEAD.size], raw[_HEAD.size :]
    intent_id, number, key_id = _HEAD.unpack(head)
    key = keys.get(key_id, b"\x00" * 32)
    if not hmac.compare_digest(mac, _mac(key, head)) or key_id not in keys:
        raise TokenRefused("not a correlation token")
    return Correlation(intent_id=intent_id, attempt_number=number, key_id=key_id)


def _written(raw: bytes) -> str:
    """Return *raw* in base32, lower case, without padding: ten bits at a time, half the library's cost."""
    bits = int.from_bytes(raw) << _PADDING_BITS
    return "".join([_PAIRS[bits >> shift & 1023] for shift in _SHIFTS])


def _read(token: str) -> bytes:
    """Return what base32 of ours was written from; a fifth of the library's cost.

    Python reads numbers to the base 32, whose digits are 0 to 9 and a to v.
    """
    if len(token) != LENGTH or not token.isascii() or not token.isalnum():
        raise TokenRefused("not a correlation token")
    try:
        bits = int(token.lower().translate(_DIGITS), 32)
    except ValueError as error:
        raise TokenRefused("not a correlation token") from error
    if bits & (1 << _PADDING_BITS) - 1:
        raise TokenRefused("not a correlation token")
    return (bits >> _PADDING_BITS).to_bytes(_HEAD.size + _MAC_BYTES)


def _mac(key: bytes, head: bytes) -> bytes:
    return hmac.digest(key, b"token" + head, "sha256")[:_MAC_BYTES]
