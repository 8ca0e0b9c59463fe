"""Field types of settings models: how a text becomes a value, and how editors are told."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, PlainSerializer, ValidationInfo
from pydantic import BaseModel as PydanticModel
from pydantic.json_schema import WithJsonSchema

from sendledger.ledger.durations import PATTERN, format_duration, parse_duration

SIZE_UNITS = {"GB": 1_000_000_000, "MB": 1_000_000, "kB": 1_000, "B": 1}
SIZE_PATTERN = "^([1-9][0-9]{0,8})(GB|MB|kB|B)$"
_SIZE = re.compile(SIZE_PATTERN)

STRICT = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
"""What every settings model is made of: unknown keys refused, values fixed, and none in an error."""


class SettingsModel(PydanticModel):
    """The base of a settings model: frozen, refusing unknown keys, silent about what it was given."""

    model_config = STRICT


def _duration(found: Any) -> timedelta:
    if isinstance(found, timedelta):
        return found
    return parse_duration(
        found if isinstance(found, str) else ""
    )  # anything else reads like nothing


def _positive(duration: timedelta) -> timedelta:
    if duration <= timedelta(0):
        raise ValueError("expected a duration longer than 0s")
    return duration


def _local_path(found: Any, info: ValidationInfo) -> Any:
    folder = (info.context or {}).get("folder")
    return folder / found if folder is not None and isinstance(found, str | Path) else found


def _size(found: Any) -> int:
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    written = _SIZE.fullmatch(found) if isinstance(found, str) else None
    if written is None:
        raise ValueError("expected a size such as 512kB, 10MB or 1GB")
    return int(written[1]) * SIZE_UNITS[written[2]]


def format_size(size_bytes: int) -> str:
    """Return the size in the largest unit that divides it."""
    unit = next(unit for unit, worth in SIZE_UNITS.items() if size_bytes % worth == 0)
    return f"{size_bytes // SIZE_UNITS[unit]}{unit}"


Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": PATTERN}),
]
"""A length of time, zero included, written ``30s``, ``1h30m`` or ``2d``."""

PositiveDuration = Annotated[Duration, AfterValidator(_positive)]
"""A :data:`Duration` longer than nothing."""

Size = Annotated[
    int,
    BeforeValidator(_size),
    PlainSerializer(format_size, return_type=str),
    WithJsonSchema({"type": "string", "pattern": SIZE_PATTERN}),
]
"""A number of bytes, more than none, written ``512kB``, ``10MB`` or ``1GB``."""

LocalPath = Annotated[Path, BeforeValidator(_local_path)]
"""A path, relative to the folder of the settings file that names it."""
