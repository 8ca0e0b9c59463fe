"""The journal: one JSON line for each accepted message, on disk before the peer hears 250.

Whoever compares a ledger with what the next hop really took reads this file, so a line is written for
every acceptance, whatever becomes of the answer, and for nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

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
    complete = path.read_bytes().split(b"\n")[:-1]
    return [_entry(line, path, number) for number, line in enumerate(complete, start=1)]


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


@dataclass(frozen=True, slots=True)
class _Waiting:
    entry: Accepted
    message: bytes
    written: asyncio.Future[Accepted]


class Journal:
    """An open journal. Appends that wait at the same time share one write and one fsync.

    *keep*, when given, is a folder that receives each message as ``NNNNNN.eml``, before its line.
    Without *fsync* an entry is handed to the operating system only: it survives the process, not the machine.
    """

    def __init__(self, path: Path, *, fsync: bool = True, keep: Path | None = None) -> None:
        self._path, self._fsync, self._keep = path, fsync, keep
        self._waiting: list[_Waiting] = []
        self._commit: asyncio.Task[None] | None = None
        self._n = self._end = 0
        self._fd = -1

    def open(self) -> Self:
        """Open or create the file and go on after its last entry; a line cut off by a crash is removed.

        Raises ``OSError`` and :class:`JournalFault`.
        """
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        entries = read_journal(self._path)
        self._n = entries[-1].n if entries else 0
        self._end = self._path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(self._fd, self._end)
        if self._fsync:
            _fsync_folder(self._path.parent)
        if self._keep is not None:
            self._keep.mkdir(parents=True, exist_ok=True)
        return self

    async def append(self, entry: Accepted, message: bytes) -> Accepted:
        """Give *entry* its number and write it; on return it is durable.

        Raises ``OSError``, and then nothing was written.
        """
        if not self._fsync:
            return self._write([(entry, message)])[0]
        written: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(entry, message, written))
        if self._commit is None:
            self._commit = asyncio.create_task(self._commit_all())
        return await written

    async def close(self) -> None:
        """Write what still waits and close the file."""
        if self._commit is not None:
            await self._commit
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def _commit_all(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            try:
                entries = await asyncio.to_thread(
                    self._write, [(w.entry, w.message) for w in group]
                )
            except OSError as error:
                _settle_failed(group, error)
            else:
                _settle_written(group, entries)
        self._commit = None

    def _write(self, group: Sequence[tuple[Accepted, bytes]]) -> list[Accepted]:
        entries = [replace(entry, n=self._n + i) for i, (entry, _) in enumerate(group, start=1)]
        lines = b"".join(map(_line, entries))
        try:
            if self._keep is not None:
                for entry, (_, message) in zip(entries, group, strict=True):
                    (self._keep / f"{entry.n:06d}.eml").write_bytes(message)
            _write_at(self._fd, lines, self._end)
            if self._fsync:
                os.fsync(self._fd)
        except OSError:
            # Half a group on disk would be read as accepted, although its peers are told otherwise.
            os.ftruncate(self._fd, self._end)
            raise
        self._n, self._end = self._n + len(entries), self._end + len(lines)
        return entries


def _settle_written(group: Sequence[_Waiting], entries: Sequence[Accepted]) -> None:
    for waiting, entry in zip(group, entries, strict=True):
        if not waiting.written.done():
            waiting.written.set_result(entry)


def _settle_failed(group: Sequence[_Waiting], error: OSError) -> None:
    for waiting in group:
        if not waiting.written.done():
            waiting.written.set_exception(error)


def _write_at(fd: int, lines: bytes, offset: int) -> None:
    left = memoryview(lines)
    while left:
        written = os.pwrite(fd, left, offset)
        left, offset = left[written:], offset + written


def _fsync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
