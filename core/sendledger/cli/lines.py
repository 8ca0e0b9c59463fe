"""Lines of a file or a pipe. Waiting for a pipe stops nothing else, and can be interrupted."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sendledger.cli.errors import UsageFault

LINE_MAX_BYTES = 1_000_000
BLOCK_BYTES = 65_536
STANDARD_INPUT = Path("-")
_POLL_S = 0.01
_BOM = b"\xef\xbb\xbf"


class Lines:
    """The lines of an open file, a byte order mark left out; ``number`` is that of the last one taken.

    ``bytes_read`` tells how far it is read; ``size_bytes`` is None of a pipe. Reading raises
    :class:`UsageFault` for a line over a megabyte and for what cannot be read.
    """

    def __init__(self, name: str, fd: int) -> None:
        self.name = name
        self.number = 0
        self.bytes_read = 0
        self.size_bytes = os.fstat(fd).st_size or None
        self._fd = fd
        self._held = b""
        self._begun = b""
        self._ended = False

    async def ready(self) -> bool:
        """Wait until there are lines to take; False at the end."""
        while not self._held and not self._ended:
            await _readable(self._fd)
            self._fill()
        return bool(self._held)

    def take(self) -> bytes:
        """Return the lines that are there with their ends, reading on if none is; empty at the end."""
        while not self._held and not self._ended:
            self._fill()
        lines, self._held = self._held, b""
        if not self.number:
            lines = lines.removeprefix(_BOM)
        self.number += _count(lines)
        return lines

    def fault(self, line: int, sentence: str) -> UsageFault:
        """Return an error about *line*."""
        return UsageFault(f"{self.name} line {line}: {sentence}")

    def _fill(self) -> None:
        try:
            block = os.read(self._fd, BLOCK_BYTES)
        except OSError as error:
            raise _unreadable(self.name, error) from None
        self.bytes_read += len(block)
        whole, end, self._begun = (self._begun + block).rpartition(b"\n")
        self._held += whole + end
        self._ended = not block
        if self._ended:
            self._held, self._begun = self._held + self._begun, b""
        self._refuse_long()

    def _refuse_long(self) -> None:
        # What is held came with one block and what had begun before it: only its first line can be longer.
        first = self._held.partition(b"\n")[0]
        if max(len(first), len(self._begun)) > LINE_MAX_BYTES:
            raise self.fault(self.number + 1, "longer than a megabyte; is it a file of recipients?")


@contextmanager
def open_lines(path: Path) -> Iterator[Lines]:
    """Lend the lines of the file at *path*, ``-`` for standard input. Raises :class:`UsageFault`."""
    if path == STANDARD_INPUT:
        yield Lines("standard input", 0)
        return
    try:
        file = path.open("rb", buffering=0)
    except OSError as error:
        raise _unreadable(str(path), error) from None
    with file:
        yield Lines(str(path), file.fileno())


async def _readable(fd: int) -> None:
    # Polled: a loop watches no plain file, and some of them would make a shared input non-blocking.
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while not poll.poll(0):  # noqa: ASYNC110 - nobody here could set an event
        await asyncio.sleep(_POLL_S)


def _count(lines: bytes) -> int:
    return lines.count(b"\n") + (not lines.endswith(b"\n") and lines != b"")


def _unreadable(name: str, error: OSError) -> UsageFault:
    reason = (error.strerror or "unknown error").lower()
    return UsageFault(f"{name}: cannot be read ({reason}); name a file that you may read")
