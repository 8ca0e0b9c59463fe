"""Which port of the loopback address the server listens on."""

from __future__ import annotations

import os
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path

from sendledger.postgres.errors import PostgresError
from sendledger.postgres.layout import LOCAL_ADDRESS

CANDIDATES = range(25432, 25632)
"""Below the ephemeral ports of Linux, macOS and IANA, so that no outgoing connection sits on one."""


def choose_port(*, fixed: int | None, remembered: int | None, home: Path) -> int:
    """Return *fixed*, else the *remembered* port, else a free one: which is tried first depends on *home*.

    Several installations on a host then seldom want the same port, also while one of them is stopped.
    Raises :class:`PostgresError` when the fixed port, or every candidate, is taken.
    """
    if fixed is not None:
        _require(fixed)
        return fixed
    if remembered is not None and _refusal(remembered) is None:
        return remembered
    for port in _candidates(home):
        if _refusal(port) is None:
            return port
    raise PostgresError(
        f"{LOCAL_ADDRESS}: every port from {CANDIDATES[0]} to {CANDIDATES[-1]} is taken;"
        " free one or fix the port of the embedded database in the settings"
    )


def _candidates(home: Path) -> Iterator[int]:
    first = zlib.crc32(os.fsencode(home)) % len(CANDIDATES)
    yield from CANDIDATES[first:]
    yield from CANDIDATES[:first]


def _require(port: int) -> None:
    refusal = _refusal(port)
    if refusal is not None:
        raise PostgresError(
            f"{LOCAL_ADDRESS}:{port}: the port fixed for the embedded database cannot be used"
            f" ({refusal}); stop the program that listens there, fix another port, or fix none"
        )


def _refusal(port: int) -> str | None:
    try:
        socket.create_server((LOCAL_ADDRESS, port)).close()
    except OSError as error:
        # Not its own words: Python repeats the address there, tuple and all.
        return os.strerror(error.errno) if error.errno else str(error)
    return None
