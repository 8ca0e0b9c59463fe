"""Lines of a file or a pipe. Waiting for a pipe stops nothing else, and can be interrupted."""

from __future__ import annotations

import asyncio
import io
import os
import select
from collections import deque
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
        self._held: deque[bytes] = deque()
        self._begun = b""
        self._ended = False

    @property
    def held(self) -> bool:
        """Whether the next line is there already."""
        return bool(self._held)

    async def ready(self) -> bool:
        """Wait until the next line is there; False at the end."""
        while not self._held and not self._ended:
            await _readable(self._fd)
            self._fill()
        return self.held

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """Return the next line with its end, reading on if it is not there yet."""
        while not self._held and not self._ended:
            self._fill()
        if not self._held:
            raise StopIteration
        line = self._held.popleft()
        self.number += 1
        if len(line) > LINE_MAX_BYTES:
            raise self._too_long(self.number)
        return line.removeprefix(_BOM) if self.number == 1 else line

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
        self._held.extend(io.BytesIO(whole + end))
        self._ended = not block
        if self._ended and self._begun:
            self._held.append(self._begun)
        elif len(self._begun) > LINE_MAX_BYTES:
            raise self._too_long(self.number + len(self._held) + 1)

    def _too_long(self, line: int) -> UsageFault:
        return self.fault(line, "longer than a megabyte; is it a file of recipients?")


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


def _unreadable(name: str, error: OSError) -> UsageFault:
    reason = (error.strerror or "unknown error").lower()
    return UsageFault(f"{name}: cannot be read ({reason}); name a file that you may read")
