"""The journal: a JSON line for each accepted message, on disk before it is answered, and for each callback.

Whoever compares a ledger with what the provider really took reads this file. Bodies are in it as digests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from sendledger_sandbox.journal import JournalFault
from sendledger_sandbox.lines import Lines, read_lines
from sendledger_sandbox.twilio.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """One accepted message. ``n`` counts the lines of the file; ``token`` is the end of the callback's path."""

    n: int
    at: datetime
    sid: str
    to: str
    sender: str | None
    service_sid: str | None
    token: str | None
    body_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """One callback that was posted. ``answer`` is the status it was answered with, None without an answer.

    ``forged`` says that it was signed with a token that is not the account's; ``tries`` how often it was
    posted until that answer.
    """

    n: int
    at: datetime
    sid: str
    token: str | None
    status: str
    error_code: int | None
    forged: bool
    tries: int
    answer: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Journalled:
    """All that a journal holds."""

    accepted: tuple[Accepted, ...]
    callbacks: tuple[Called, ...]


_KINDS: Mapping[str, type[Accepted | Called]] = {"accepted": Accepted, "callback": Called}


def read_journal(path: Path) -> Journalled:
    """Read every entry of a journal, also while it is written to.

    What follows the last line end was cut off by a crash before anybody was answered, and is left out.
    Raises :class:`JournalFault` for any other line that is no entry, and ``OSError``.
    """
    entries = [_entry(line, path, n) for n, line in enumerate(read_lines(path), start=1)]
    return Journalled(
        accepted=tuple(entry for entry in entries if isinstance(entry, Accepted)),
        callbacks=tuple(entry for entry in entries if isinstance(entry, Called)),
    )


def _entry(line: bytes, path: Path, number: int) -> Accepted | Called:
    try:
        found = json.loads(line)
        at, kind = datetime.fromisoformat(found["at"]), _KINDS[found.pop("kind")]
        return kind(**{**found, "at": at})
    except (ValueError, TypeError, KeyError, AttributeError):
        raise JournalFault(
            f"{path} (line {number}): no journal entry; is this the journal of a Twilio stand-in?"
        ) from None


class Journal:
    """An open journal; appends that wait at the same time share one write and one fsync."""

    def __init__(self, path: Path, *, fsync: bool) -> None:
        self._path, self._lines = path, Lines(path, fsync=fsync)

    def open(self) -> Self:
        """Open or create the file and go on after its last entry. Raises ``OSError``, :class:`JournalFault`."""
        if self._path.exists():
            read_journal(self._path)
        self._lines.open()
        return self

    async def accept(self, message: Message) -> None:
        """Write that *message* was accepted; on return it is durable. Raises ``OSError``."""
        request = message.request
        await self._append(
            "accepted",
            at=message.created_at,
            sid=message.sid,
            to=request.to,
            sender=request.sender,
            service_sid=request.service_sid,
            token=request.token,
            body_sha256=hashlib.sha256(request.body.encode()).hexdigest(),
        )

    async def call(self, called: Called) -> None:
        """Write that a callback was posted; the journal numbers it. Raises ``OSError``."""
        await self._append("callback", **asdict(called))

    async def close(self) -> None:
        """Write what still waits and close the file."""
        await self._lines.close()

    async def _append(self, kind: str, *, at: datetime, **entry: Any) -> None:
        def render(n: int) -> bytes:
            line = {"kind": kind, **entry, "n": n, "at": at.astimezone(UTC).isoformat()}
            return json.dumps(line).encode() + b"\n"

        await self._lines.append(render)
