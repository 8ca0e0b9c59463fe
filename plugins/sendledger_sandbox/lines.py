"""A file of lines: each is on disk when its append returns, and those that wait together share an fsync."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

Render = Callable[[int], bytes]
"""Makes a line, its end included, from its number; called in another thread, and may raise ``OSError``."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    render: Render
    written: asyncio.Future[int]


class Lines:
    """An open file of lines, numbered from 1 without gaps.

    Without *fsync* a line is handed to the operating system only: it survives the process, not the machine.
    """

    def __init__(self, path: Path, *, fsync: bool = True) -> None:
        self._path, self._fsync = path, fsync
        self._waiting: list[_Waiting] = []
        self._commit: asyncio.Task[None] | None = None
        self._n = self._end = 0
        self._fd = -1

    def open(self) -> Self:
        """Open or create the file and go on after its last line; one cut off by a crash is removed.

        Raises ``OSError``.
        """
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        written = self._path.read_bytes()
        self._n, self._end = written.count(b"\n"), written.rfind(b"\n") + 1
        os.ftruncate(self._fd, self._end)
        if self._fsync:
            _fsync_folder(self._path.parent)
        return self

    async def append(self, render: Render) -> int:
        """Write the line that *render* makes of its number; return the number with the line durable.

        Raises ``OSError``, and then nothing was written.
        """
        if not self._fsync:
            return self._write([render])
        written: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(render, written))
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
                first = await asyncio.to_thread(self._write, [w.render for w in group])
            except OSError as error:
                _settle_failed(group, error)
            else:
                _settle_written(group, first)
        self._commit = None

    def _write(self, group: Sequence[Render]) -> int:
        """Write a group and return the number of its first line."""
        first = self._n + 1
        try:
            lines = b"".join(render(number) for number, render in enumerate(group, start=first))
            _write_at(self._fd, lines, self._end)
            if self._fsync:
                os.fsync(self._fd)
        except OSError:
            # Half a group on disk would be read as accepted, although its peers are told otherwise.
            os.ftruncate(self._fd, self._end)
            raise
        self._n, self._end = self._n + len(group), self._end + len(lines)
        return first


def read_lines(path: Path) -> list[bytes]:
    """Return the complete lines of a file, also while it is written to. Raises ``OSError``."""
    return path.read_bytes().split(b"\n")[:-1]


def _settle_written(group: Sequence[_Waiting], first: int) -> None:
    for number, waiting in enumerate(group, start=first):
        if not waiting.written.done():
            waiting.written.set_result(number)


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
