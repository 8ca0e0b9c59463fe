"""The recipients file: CSV (RFC 4180) in UTF-8, read as a stream of rows and rejects.

A row that makes no sense is a reject and holds nobody else. A fault after which nobody can tell where
the next row begins is the file's, and plans nothing.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO

from sendledger.cli.errors import UsageFault
from sendledger.journal.intake import DESTINATION, RECIPIENT, VARIABLE, Reject, Row
from sendledger.journal.plan import Entry

LINE_MAX_BYTES = 1_000_000
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which column holds what: the recipient's id, the destination, and each variable by its name."""

    recipient_id: str
    destination: str
    variables: Mapping[str, str]

    def names(self) -> dict[str, str]:
        """Return the column behind each field that a reject may name."""
        variables = {VARIABLE + name: column for name, column in self.variables.items()}
        return {RECIPIENT: self.recipient_id, DESTINATION: self.destination, **variables}


class RecipientsFile:
    """An open recipients file. ``bytes_read`` tells how far it is read; ``size_bytes`` is None of a pipe."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """Read the header of *file*. Raises :class:`UsageFault` when it is none."""
        self.bytes_read = 0
        self.size_bytes = os.fstat(file.fileno()).st_size or None
        self._path = path
        self._file = file
        self._line = 0
        self._records = csv.reader(self._lines(), strict=True)
        _, header = self._next() or (0, [])
        self.header = [name.strip() for name in header]
        if not any(self.header):
            raise self._fault(1, "expected a line with the names of the columns")
        self._refuse_twins()

    def entries(self, columns: Columns) -> Iterator[Entry]:
        """Yield a row or a reject for each record, blank lines left out.

        Raises :class:`UsageFault` before the first when a column is missing, after the last when there
        was none, and in between when the file cannot be read on.
        """
        self._refuse_missing(columns.names().values())
        return self._entries(columns)

    def _entries(self, columns: Columns) -> Iterator[Entry]:
        at = {name: place for place, name in enumerate(self.header)}
        recipient, destination = at[columns.recipient_id], at[columns.destination]
        variables = [(name, at[column]) for name, column in columns.variables.items()]
        width, empty = len(self.header), True
        while found := self._next():
            line, record = found
            empty = False
            if len(record) != width:
                yield _ragged(line, len(record), width)
                continue
            yield Row(
                line=line,
                recipient_id=record[recipient],
                destination=record[destination],
                variables={
                    name: value if (value := record[place]).strip() else None
                    for name, place in variables
                },
            )
        if empty:
            raise UsageFault(f"{self._path}: there are no recipients below the header; add them")

    # A file without a header begins with a person: what stands there is never repeated.

    def _refuse_twins(self) -> None:
        first: dict[str, int] = {}
        for place, name in enumerate(self.header, 1):
            if name and first.setdefault(name, place) != place:
                sentence = (
                    f"columns {first[name]} and {place} have the same name; rename one of them"
                )
                raise self._fault(1, sentence)

    def _refuse_missing(self, columns: Iterable[str]) -> None:
        for column in columns:
            if column in self.header:
                continue
            if len(self.header) == 1 and any(mark in self.header[0] for mark in ";\t|"):
                remedy = "the columns must be separated by commas"
            elif close := get_close_matches(column, self.header, n=1, cutoff=0.8):
                remedy = f'did you mean "{close[0]}"?'
            else:
                remedy = "write it in the header, or name another column in the batch file"
            raise self._fault(1, f'found no column "{column}"; {remedy}')

    def _next(self) -> tuple[int, list[str]] | None:
        """Return the next record that is not blank and the line it begins on, or None at the end."""
        while True:
            line = self._records.line_num + 1
            try:
                record = next(self._records)
            except StopIteration:
                return None
            except csv.Error as error:  # its words are about quotes and limits, never the text
                sentence = (
                    f"not valid CSV ({error}); a quoted value ends right before a comma or the line's"
                    " end, and a quote inside it is doubled"
                )
                raise self._fault(line, sentence) from None
            if record:
                return line, record

    def _lines(self) -> Iterator[str]:
        while raw := self._read_line():
            self._line += 1
            self.bytes_read += len(raw)
            if len(raw) > LINE_MAX_BYTES:
                raise self._fault(self._line, "longer than a megabyte; is it a CSV file?")
            try:
                yield (raw.removeprefix(_BOM) if self._line == 1 else raw).decode()
            except UnicodeDecodeError:
                raise self._fault(self._line, "not UTF-8; save the file as CSV in UTF-8") from None

    def _read_line(self) -> bytes:
        try:
            return self._file.readline(LINE_MAX_BYTES + 1)
        except OSError as error:
            raise _unreadable(self._path, error) from None

    def _fault(self, line: int, sentence: str) -> UsageFault:
        return UsageFault(f"{self._path} line {line}: {sentence}")


@contextmanager
def open_recipients(path: Path) -> Iterator[RecipientsFile]:
    """Lend the recipients file at *path*. Raises :class:`UsageFault`."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from None
    with file:
        yield RecipientsFile(path, file)


def _unreadable(path: Path, error: OSError) -> UsageFault:
    reason = (error.strerror or "unknown error").lower()
    return UsageFault(f"{path}: cannot be read ({reason}); name a CSV file that you may read")


def _ragged(line: int, found: int, expected: int) -> Reject:
    return Reject(
        line=line,
        field="",
        reason=f"the row has {found} values, the header {expected}",
        remedy="fill in what is missing, or quote a value that holds a comma",
    )
