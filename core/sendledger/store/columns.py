"""Turn rows of values into the parallel arrays that UNNEST takes.

Written here as array literals: the driver's own list adaptation costs more than the statement it feeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any
from uuid import UUID


def columns(kind: type[Any], rows: Iterable[Any]) -> dict[str, str]:
    """Return one array literal for each field of the dataclass *kind*, in the order of *rows*."""
    rows = list(rows)
    names = [field.name for field in fields(kind)]
    return {name: array([getattr(row, name) for row in rows]) for name in names}


def array(values: Sequence[Any]) -> str:
    """Return *values*, all of one kind or None, as a Postgres array literal to be cast.

    Raises ``TypeError`` for a kind no column of ours has.
    """
    write = _writer(next((value for value in values if value is not None), None))
    return "{" + ",".join(["NULL" if value is None else write(value) for value in values]) + "}"


def _writer(sample: Any) -> Callable[[Any], str]:
    match sample:
        case None | bool() | int():
            return str
        case str():
            return _text
        case bytes():
            return _octets
        case datetime():
            return _instant
        case UUID():
            return str
    raise TypeError(f"no array of {type(sample).__name__} is sent to Postgres")


def _text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _octets(octets: bytes) -> str:
    return '"\\\\x' + octets.hex() + '"'


def _instant(at: datetime) -> str:
    return '"' + at.isoformat() + '"'
