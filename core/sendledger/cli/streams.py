"""What a command is given by the system, made fit for use: its streams, and the signal to end."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EBADF, EDQUOT, EFBIG, EIO, ENOSPC

_UNWRITABLE = frozenset({EBADF, EDQUOT, EFBIG, EIO, ENOSPC})


def keep_streams() -> None:
    """Open what was closed, and let what an encoding lacks be written escaped.

    A socket would get the number of a closed stream, and libraries below end the process over that.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 - stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def ending_tidily() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that nothing half done stays behind.

    Commands that stay have a better answer to it, and give it themselves.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(_: int, __: object) -> None:
    raise KeyboardInterrupt


def flush_output() -> None:
    """Write out what standard output holds back. Raises ``OSError``, once."""
    try:
        sys.stdout.flush()
    except OSError:
        discard_output()
        raise


def discard_output() -> None:
    """Send what cannot be written where it can: the interpreter tries again when it ends."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    os.close(sink)


def is_of_output(error: OSError) -> bool:
    """Whether *error* says that an open stream cannot be written; one about a file names it."""
    return error.filename is None and error.errno in _UNWRITABLE
