"""Locks that the kernel drops when their last holder dies: no process can leave one behind.

``flock`` belongs to the open file, not to the process. A child that inherits the descriptor holds the
lock too, until the last of them is gone; a zombie has no descriptors and holds nothing.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self


class FileLock:
    """One opening of a lock file. Closing it gives up the lock, unless a child inherited ``fd``."""

    __slots__ = ("fd",)

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def try_exclusive(self) -> bool:
        """Take the lock alone, at once or not at all; a shared hold is lost when that fails."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def share(self) -> None:
        """Hold the lock together with others; waits while somebody has it alone."""
        fcntl.flock(self.fd, fcntl.LOCK_SH)

    def close(self) -> None:
        """Give up what is held."""
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def is_free(path: Path) -> bool:
    """Whether nobody holds the lock file at *path* just now."""
    with FileLock(path) as lock:
        return lock.try_exclusive()
