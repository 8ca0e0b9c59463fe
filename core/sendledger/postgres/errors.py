"""The one error of the embedded server, and how a system error becomes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class PostgresError(Exception):
    """One sentence for the operator: what was found, where, and what to do."""


@contextmanager
def explain(path: Path, remedy: str) -> Iterator[None]:
    """Turn an ``OSError`` about *path* into a :class:`PostgresError` that ends with *remedy*."""
    try:
        yield
    except OSError as error:
        raise PostgresError(f"{path}: {error.strerror or error}; {remedy}") from error
