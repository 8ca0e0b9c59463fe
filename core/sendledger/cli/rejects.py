"""The rejects file: which rows were not planned and why, without a word of what is in them."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from sendledger.cli.errors import UsageFault
from sendledger.cli.lines import STANDARD_INPUT
from sendledger.journal.batch import Reject

HEADER = ("line", "column", "reason", "remedy")
_FIRST_LINE = ",".join(HEADER)
_SUFFIXES = frozenset({".csv", ".jsonl", ".ndjson"})


def rejects_path(recipients: Path) -> Path:
    """Return where the rejects of *recipients* go by default: ``spring.rejects.csv`` beside it.

    Those of standard input go to ``recipients.rejects.csv`` in the working directory.
    """
    if recipients == STANDARD_INPUT:
        return Path("recipients.rejects.csv")
    name = recipients.stem if recipients.suffix.lower() in _SUFFIXES else recipients.name
    return recipients.with_name(f"{name}.rejects.csv")


class RejectsFile:
    """Rejects on their way to ``path``, where they appear whole or not at all; ``count`` of them so far."""

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        self.path = path
        self.count = 0
        self._columns = columns
        self._fresh: Path | None = None
        self._file: IO[str] | None = None
        self._writer: Any = None

    def add(self, reject: Reject) -> None:
        """Write *reject* down. Raises :class:`UsageFault` when the disk will not have it."""
        column = self._columns.get(reject.field, "")
        with _writing(self.path):
            self._open()
            self._writer.writerow((reject.line, column, reject.reason, reject.remedy))
        self.count += 1

    def publish(self) -> None:
        """Put the rejects in place of those of an earlier run; without any, remove the earlier ones.

        Raises :class:`UsageFault`.
        """
        with _writing(self.path):
            if self._file is None or self._fresh is None:
                self.path.unlink(missing_ok=True)
                return
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._fresh.replace(self.path)
            self._fresh = None

    def discard(self) -> None:
        """Leave nothing behind of what was not published."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        if self._fresh is not None:
            self._fresh.unlink(missing_ok=True)

    def _open(self) -> None:
        if self._file is not None:
            return
        fd, name = tempfile.mkstemp(prefix=f"{self.path.name}.", dir=self.path.parent)  # mode 0600
        self._fresh = Path(name)
        self._file = os.fdopen(fd, "w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(HEADER)


@contextmanager
def open_rejects(path: Path, columns: Mapping[str, str]) -> Iterator[RejectsFile]:
    """Lend the rejects file for *path*; what was not published is gone when the block ends.

    Raises :class:`UsageFault` when something else than a rejects file is there already.
    """
    _refuse_stranger(path)
    rejects = RejectsFile(path, columns)
    try:
        yield rejects
    finally:
        rejects.discard()


def _refuse_stranger(path: Path) -> None:
    """Never overwrite what an earlier run did not write: it may be the recipients themselves."""
    if path == STANDARD_INPUT:
        raise UsageFault("-: the rejects go to a file of their own; name it with --rejects")
    with _writing(path):
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                first = file.readline(len(_FIRST_LINE) + 2).rstrip("\r\n")
        except FileNotFoundError:
            return
    if first != _FIRST_LINE:
        raise UsageFault(f"{path}: is there and no rejects file; choose another with --rejects")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        raise UsageFault(
            f"{path}: the rejects cannot be written ({reason}); choose another file with --rejects"
        ) from None
