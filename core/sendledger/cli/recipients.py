"""The recipients: a stream of rows and rejects, read from CSV or from JSON lines, a file or a pipe.

A row that makes no sense is a reject and holds nobody else. A fault after which nobody can tell where
the next row begins is the file's, and plans nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from sendledger.cli.columns import Columns
from sendledger.cli.lines import Lines, open_lines
from sendledger.cli.recipients_csv import CsvRecipients
from sendledger.cli.recipients_jsonl import JsonlRecipients
from sendledger.journal.batch import Entry

JSONL_SUFFIXES = frozenset({".jsonl", ".ndjson"})


class Format(StrEnum):
    """How recipients are written."""

    CSV = "csv"
    JSONL = "jsonl"


class Recipients(Protocol):
    """Recipients in one of the formats. ``nested`` tells whether a value may hold others."""

    nested: bool
    lines: Lines

    def blocks(self, columns: Columns) -> AsyncIterator[Sequence[Entry]]:
        """Yield a row or a reject for each recipient, as many at a time as there are.

        Raises ``UsageFault`` before the first when a column is missing, after the last when there was
        none, and in between when the file cannot be read on.
        """


@contextmanager
def open_recipients(path: Path, given: Format | None = None) -> Iterator[Recipients]:
    """Lend the recipients at *path*, ``-`` for standard input, in the *given* format or that of its suffix.

    Raises ``UsageFault``.
    """
    with open_lines(path) as lines:
        if (given or format_of(path)) is Format.CSV:
            yield CsvRecipients(lines)
        else:
            yield JsonlRecipients(lines)


def format_of(path: Path) -> Format:
    """Return the format that the name of *path* speaks of; CSV when it speaks of none."""
    return Format.JSONL if path.suffix.lower() in JSONL_SUFFIXES else Format.CSV
