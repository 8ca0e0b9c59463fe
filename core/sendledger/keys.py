"""The key ring: one private file from which every keyed digest and token of an installation comes.

Lose it and stored fingerprints can no longer be matched and receipts no longer verified; publish it and
receipts can be forged. It is never stored in the database, nor in the same backup.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from uuid import UUID, uuid4

FORMAT = 1
KEY_BYTES = 32
KEY_ID_MAX = 255
PURPOSE_PREFIX = b"sendledger/v1/"


class KeyRingError(Exception):
    """One sentence for the operator: what was found in the key file's place, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRing:
    """The keys of one installation. Each purpose has a key of its own, 32 bytes, derived here.

    The identity key never rotates: what is stored under it must stay findable. Token keys rotate by
    id (1 to 255); tokens are made with the current one and verified with the one they name.
    """

    installation_id: UUID
    token_key_id: int
    _identity: bytes = field(repr=False)
    _tokens: Mapping[int, bytes] = field(repr=False)

    @classmethod
    def load_or_create(cls, path: Path) -> Self:
        """Return the key ring at *path*, made when there is none; of several starters one makes it.

        Raises :class:`KeyRingError`.
        """
        if not path.exists():
            _create(path, _fresh())
        return cls.load(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return the key ring at *path*.

        Raises :class:`KeyRingError` when it is missing, readable by others or not a key ring.
        """
        content = _read_private(path)
        try:
            return cls._parse(json.loads(content))
        except (ValueError, KeyError, TypeError, AttributeError):
            # The cause is dropped: what a parser says of the file may quote a key.
            raise KeyRingError(
                f"{path}: is not a key ring of format {FORMAT}; restore it from its backup"
            ) from None

    @property
    def intent_key_key(self) -> bytes:
        """The key of intent keys."""
        return _derive(self._identity, b"intent-key")

    @property
    def recipient_key(self) -> bytes:
        """The key of recipient fingerprints."""
        return _derive(self._identity, b"recipient")

    @property
    def destination_key(self) -> bytes:
        """The key of destination fingerprints."""
        return _derive(self._identity, b"destination")

    @property
    def seal_key(self) -> bytes:
        """The key of seals over the ledger."""
        return _derive(self._identity, b"seal")

    @property
    def token_keys(self) -> Mapping[int, bytes]:
        """The keys of correlation tokens by key id, the current one included."""
        keys = {key_id: _derive(key, b"token") for key_id, key in self._tokens.items()}
        return MappingProxyType(keys)

    def rotate_token_key(self, path: Path) -> Self:
        """Put a new current token key into the file at *path*, and return that key ring.

        Older keys stay, for receipts still under way. A running process keeps what it loaded, so
        restart every one before the new tokens come back. Raises :class:`KeyRingError` after the last id.
        """
        key_id = max(self._tokens) + 1
        if key_id > KEY_ID_MAX:
            raise KeyRingError(
                f"{path}: all {KEY_ID_MAX} token key ids are used; no further rotation"
            )
        tokens = {**self._tokens, key_id: secrets.token_bytes(KEY_BYTES)}
        ring = replace(self, token_key_id=key_id, _tokens=tokens)
        _write_beside(path, ring._content()).replace(path)  # noqa: SLF001 - a key ring of ours
        return ring

    @classmethod
    def _parse(cls, document: Any) -> Self:
        if document["format"] != FORMAT:
            raise ValueError
        tokens = {
            _key_id(int(name)): _key(text) for name, text in document["tokens"]["keys"].items()
        }
        current = document["tokens"]["current"]
        if current not in tokens:
            raise ValueError
        return cls(
            installation_id=UUID(document["installation_id"]),
            token_key_id=current,
            _identity=_key(document["identity"]),
            _tokens=tokens,
        )

    def _content(self) -> str:
        return _render(self.installation_id, self._identity, self.token_key_id, self._tokens)


def _derive(key: bytes, purpose: bytes) -> bytes:
    """Return the subkey of *purpose*: what leaks for one purpose says nothing about another."""
    return hmac.digest(key, PURPOSE_PREFIX + purpose, "sha256")


def _key(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != KEY_BYTES:
        raise ValueError
    return key


def _key_id(number: int) -> int:
    if not 1 <= number <= KEY_ID_MAX:
        raise ValueError
    return number


def _fresh() -> str:
    identity, token = secrets.token_bytes(KEY_BYTES), secrets.token_bytes(KEY_BYTES)
    return _render(uuid4(), identity, 1, {1: token})


def _render(
    installation_id: UUID, identity: bytes, current: int, tokens: Mapping[int, bytes]
) -> str:
    document = {
        "format": FORMAT,
        "installation_id": str(installation_id),
        "identity": identity.hex(),
        "tokens": {
            "current": current,
            "keys": {str(key_id): key.hex() for key_id, key in tokens.items()},
        },
    }
    return json.dumps(document, indent=2) + "\n"


def _create(path: Path, content: str) -> None:
    """Put *content* at *path* whole, unless another process was first."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = _write_beside(path, content)
        try:
            # A link, unlike a rename, never replaces: keys that exist are never overwritten.
            with suppress(FileExistsError):
                os.link(fresh, path)
        finally:
            fresh.unlink()
    except OSError as error:
        raise KeyRingError(
            f"{path}: the key ring cannot be created ({error.strerror}); make its folder writable"
            " for this user or choose another state directory"
        ) from error


def _write_beside(path: Path, content: str) -> Path:
    """Write a private file next to *path*, flushed to disk, and return it."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return fresh


def _read_private(path: Path) -> str:
    """Return the text of *path*. Raises :class:`KeyRingError` when group or others may touch it."""
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read()
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or "not text"
        raise KeyRingError(
            f"{path}: the key ring cannot be read ({found}); restore it from its backup or run as"
            " the user who owns it"
        ) from error
    if mode & 0o077:
        raise KeyRingError(
            f"{path}: other users can read or change the keys (mode {mode:04o}); run chmod 600 {path}"
        )
    return content
