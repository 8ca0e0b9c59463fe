"""Recipients as CSV (RFC 4180) in UTF-8, with a header."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator
from difflib import get_close_matches
from itertools import chain

from sendledger.cli.columns import Columns
from sendledger.cli.errors import UsageFault
from sendledger.cli.lines import LINE_MAX_BYTES, Lines
from sendledger.journal.batch import Entry, Reject, Row

csv.field_size_limit(LINE_MAX_BYTES)  # the module's own, 131072 characters, is no promise of ours

# Its words are about quotes and limits, never the text; each begins as here.
_FAULTS = {
    "field larger than field limit": (
        "a value is longer than a megabyte; is the quote that begins it ever closed?"
    ),
    "unexpected end of data": (
        "a quoted value never ends; close the quote, and double a quote inside of a value"
    ),
    "new-line character": (
        "a carriage return stands alone; end lines with LF or CRLF, and quote a value that holds one"
    ),
}
_FAULT = (
    "something follows a quoted value; it ends right before a comma or the line's end, and a quote"
    " inside it is doubled"
)


class CsvRecipients:
    """Recipients in CSV. A value is plain text."""

    nested = False

    def __init__(self, lines: Lines) -> None:
        """Read the header. Raises :class:`UsageFault` when it is none."""
        self.lines = lines
        self._records = csv.reader(chain.from_iterable(self._texts()), strict=True)
        self.header = [name.strip() for name in self._first()]
        if not any(self.header):
            raise lines.fault(1, "expected a line with the names of the columns")
        self._refuse_twins()

    def blocks(self, columns: Columns) -> AsyncIterator[list[Entry]]:
        """Yield rows and rejects as they are there, blank lines left out. Raises :class:`UsageFault`."""
        self._refuse_missing(columns)
        return self._blocks(columns)

    async def _blocks(self, columns: Columns) -> AsyncIterator[list[Entry]]:
        at = {name: place for place, name in enumerate(self.header)}
        recipient, destination = at[columns.recipient_id], at[columns.destination]
        variables = [(name, at[column]) for name, column in columns.variables.items()]
        width, empty = len(self.header), True
        while self._more() or await self.lines.ready():
            entries = [
                Row(
                    line,
                    record[recipient],
                    record[destination],
                    {name: record[place] for name, place in variables},
                )
                if len(record) == width
                else _ragged(line, len(record), width)
                for line, record in self._held()
                if record
            ]
            empty = empty and not entries
            yield entries
        if empty:
            raise UsageFault(
                f"{self.lines.name}: there are no recipients below the header; add them"
            )

    # A file without a header begins with a person: what stands there is never repeated.

    def _refuse_twins(self) -> None:
        first: dict[str, int] = {}
        for place, name in enumerate(self.header, 1):
            if name and first.setdefault(name, place) != place:
                sentence = (
                    f"columns {first[name]} and {place} have the same name; rename one of them"
                )
                raise self.lines.fault(1, sentence)

    def _refuse_missing(self, columns: Columns) -> None:
        for column in columns.names().values():
            if column in self.header:
                continue
            if len(self.header) == 1 and any(mark in self.header[0] for mark in ";\t|"):
                remedy = "the columns must be separated by commas"
            elif close := self._close(column):
                remedy = f'did you mean "{close}"?'
            else:
                remedy = "write it in the header, or name another column in the batch file"
            use = f", which {columns.uses[column]} needs" if column in columns.uses else ""
            raise self.lines.fault(1, f'found no column "{column}"{use}; {remedy}')

    def _close(self, column: str) -> str | None:
        """Return the name in the header that *column* is a slip for: in another case, or a letter off."""
        names = {name.casefold(): name for name in self.header}
        found = get_close_matches(column.casefold(), names, n=1, cutoff=0.8)
        return names[found[0]] if found else None

    def _first(self) -> list[str]:
        while held := self._held(one=True):
            ((_, record),) = held
            if record:
                return record
        return []

    def _more(self) -> bool:
        """Whether a record begins in the lines that were taken already."""
        return self._records.line_num < self.lines.number

    def _held(self, *, one: bool = False) -> list[tuple[int, list[str]]]:
        """Return the records that are there, or only *one*, each with the line it begins on.

        Takes lines if none are left, and may wait for the end of the last record. Empty at the end.
        """
        records, lines = self._records, self.lines
        held: list[tuple[int, list[str]]] = []
        line = records.line_num + 1
        try:
            for record in records:
                held.append((line, record))
                line = records.line_num + 1
                if one or line > lines.number:
                    break
        except csv.Error as error:
            raise self.lines.fault(line, f"not valid CSV: {_told(error)}") from None
        return held

    def _texts(self) -> Iterator[Iterable[str]]:
        """Yield texts that are each read line by line, at the pace of what reads them: in C."""
        while octets := self.lines.take():
            try:
                yield io.StringIO(octets.decode(), newline="\n")
            except UnicodeDecodeError as error:
                after = octets.count(b"\n", error.start)
                line = self.lines.number - after + octets.endswith(b"\n")
                raise self.lines.fault(line, "not UTF-8; save the file as CSV in UTF-8") from None


def _told(error: csv.Error) -> str:
    words = str(error)
    return next((told for begin, told in _FAULTS.items() if words.startswith(begin)), _FAULT)


def _ragged(line: int, found: int, expected: int) -> Reject:
    return Reject(
        line=line,
        field="",
        reason=f"the row has {found} values, the header {expected}",
        remedy="fill in what is missing, or quote a value that holds a comma",
    )
