"""The journal: one JSON line for each accepted message, on disk before the peer hears 250.

Whoever compares a ledger with what the next hop really took reads this file, so a line is written for
every acceptance, whatever becomes of the answer, and for nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from sendledger_sandbox.lines import Lines, read_lines

_HEADER = re.compile(
    rb"^(message-id|sendledger-token):[ \t]*(.*(?:\r?\n[ \t].*)*)", re.IGNORECASE | re.MULTILINE
)
_HEADERS_END = re.compile(rb"\r?\n\r?\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """One accepted message, as in its journal line.

    ``n`` runs from 1 without gaps; ``mail_from`` is the reverse path without brackets, empty for the null
    path; ``envid`` is decoded; ``token`` is the ``Sendledger-Token`` header; ``bytes`` and ``sha256`` are
    of the message with its dots un-stuffed.
    """

    n: int
    at: datetime
    mail_from: str
    envid: str | None
    rcpt: tuple[str, ...]
    message_id: str | None
    token: str | None
    bytes: int
    sha256: str


class JournalFault(ValueError):  # noqa: N818 - a fault of the file, not of the program
    """A complete line of a journal is no entry. The message names the file and the line."""


def read_journal(path: Path) -> list[Accepted]:
    """Read every entry of a journal, also while it is written to.

    What follows the last line end was cut off by a crash before anybody heard 250, and is left out.
    Raises :class:`JournalFault` for any other line that is no entry, and ``OSError``.
    """
    return [_entry(line, path, number) for number, line in enumerate(read_lines(path), start=1)]


def _entry(line: bytes, path: Path, number: int) -> Accepted:
    try:
        found = json.loads(line)
        at, rcpt = datetime.fromisoformat(found["at"]), tuple(found["rcpt"])
        return Accepted(**{**found, "at": at, "rcpt": rcpt})
    except (ValueError, TypeError, KeyError):
        raise JournalFault(
            f"{path} (line {number}): no journal entry; is this a sandbox journal?"
        ) from None


def _line(accepted: Accepted) -> bytes:
    return json.dumps({**asdict(accepted), "at": accepted.at.isoformat()}).encode() + b"\n"


def describe(*, mail_from: str, envid: str | None, rcpt: Sequence[str], message: bytes) -> Accepted:
    """Make the entry of a message that is being accepted now; the journal numbers it."""
    head = _HEADERS_END.split(message, 1)[0]
    headers = {name.lower(): _unfold(value) for name, value in _HEADER.findall(head)}
    return Accepted(
        n=0,
        at=datetime.now(UTC),
        mail_from=mail_from,
        envid=envid,
        rcpt=tuple(rcpt),
        message_id=headers.get(b"message-id"),
        token=headers.get(b"sendledger-token"),
        bytes=len(message),
        sha256=hashlib.sha256(message).hexdigest(),
    )


def _unfold(value: bytes) -> str:
    return re.sub(rb"\s+", b" ", value).strip().decode("utf-8", "replace")


class Journal:
    """An open journal; appends that wait at the same time share one write and one fsync.

    *keep*, when given, is a folder that receives each message as ``NNNNNN.eml``, before its line.
    Without *fsync* an entry is handed to the operating system only: it survives the process, not the machine.
    """

    def __init__(self, path: Path, *, fsync: bool = True, keep: Path | None = None) -> None:
        self._path, self._keep = path, keep
        self._lines = Lines(path, fsync=fsync)

    def open(self) -> Self:
        """Open or create the file and go on after its last entry; a line cut off by a crash is removed.

        Raises ``OSError`` and :class:`JournalFault`.
        """
        if self._path.exists():
            read_journal(self._path)
        self._lines.open()
        if self._keep is not None:
            self._keep.mkdir(parents=True, exist_ok=True)
        return self

    async def append(self, entry: Accepted, message: bytes) -> Accepted:
        """Give *entry* its number and write it; on return it is durable.

        Raises ``OSError``, and then nothing was written.
        """

        def render(n: int) -> bytes:
            if self._keep is not None:
                (self._keep / f"{n:06d}.eml").write_bytes(message)
            return _line(replace(entry, n=n))

        return replace(entry, n=await self._lines.append(render))

    async def close(self) -> None:
        """Write what still waits and close the file."""
        await self._lines.close()
