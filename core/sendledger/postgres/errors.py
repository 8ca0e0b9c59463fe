"""The one error of the embedded server, and how a system error becomes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class PostgresError(Exception):
    """One sentence for the operator: what was found, where, and what to do."""


@contextmanager
def explain(path: Path, remedy: str) -> Iterator[None]:
    """Turn an ``OSError`` into a :class:`PostgresError` that names its file, else *path*, and *remedy*."""
    try:
        yield
    except OSError as error:
        place = error.filename or path
        raise PostgresError(f"{place}: {error.strerror or error}; {remedy}") from error
