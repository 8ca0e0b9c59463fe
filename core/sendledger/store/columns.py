"""Turn rows of values into the parallel arrays that UNNEST takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any


def columns(kind: type[Any], rows: Iterable[Any]) -> dict[str, list[Any]]:
    """Return one list for each field of the dataclass *kind*, in the order of *rows*."""
    names = [field.name for field in fields(kind)]
    rows = list(rows)
    return {name: [getattr(row, name) for row in rows] for name in names}
