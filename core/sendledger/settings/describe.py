"""Settings and policy as they were understood, line by line, with secrets hidden."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel, PlainSerializer

from sendledger.ledger.classification import Rule
from sendledger.ledger.durations import format_duration
from sendledger.settings.types import format_size
from sendledger.settings.validate import RawBlock

NOT_SET = "not set"
EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One setting as understood; ``value`` is fit to be printed, a secret is ``***``."""

    path: str
    value: str
    origin: Literal["default", "set"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One setting that is not as in the defaults; a side that has no such setting says ``not set``."""

    path: str
    value: str
    default: str


def describe(model: BaseModel, blocks: Mapping[str, BaseModel] | None = None) -> list[Described]:
    """Return every setting of *model*, in the order it is declared.

    *blocks* are the typed settings of channels, by channel name; without its model a channel's own
    block is left out.
    """
    return list(_describe_model(model, "", blocks or {}, given=True))


def differences(found: BaseModel, defaults: BaseModel) -> list[Difference]:
    """Return what *found* says otherwise than *defaults*, by path."""
    ours = {row.path: row.value for row in describe(found)}
    theirs = {row.path: row.value for row in describe(defaults)}
    return [
        Difference(path=path, value=ours.get(path, NOT_SET), default=theirs.get(path, NOT_SET))
        for path in dict.fromkeys([*ours, *theirs])
        if ours.get(path, NOT_SET) != theirs.get(path, NOT_SET)
    ]


def _describe_model(
    model: BaseModel, path: str, blocks: Mapping[str, BaseModel], *, given: bool
) -> Iterator[Described]:
    for name in type(model).model_fields:
        here = f"{path}.{name}" if path else name
        is_set = given and name in model.model_fields_set
        yield from _describe(_written(model, name), here, blocks, given=is_set)


def _written(model: BaseModel, name: str) -> Any:
    """Return the value of a field; a size as it is written, for its type is that of any number."""
    value, rules = getattr(model, name), type(model).model_fields[name].metadata
    is_size = any(isinstance(rule, PlainSerializer) and rule.func is format_size for rule in rules)
    return format_size(value) if is_size else value


def _describe(
    value: Any, path: str, blocks: Mapping[str, BaseModel], *, given: bool
) -> Iterator[Described]:
    match value:
        case BaseModel():
            yield from _describe_model(value, path, blocks, given=given)
        case RawBlock():
            if (typed := blocks.get(str(value.where[1]))) is not None:
                yield from _describe_model(typed, path, blocks, given=True)
        case tuple() if any(isinstance(item, BaseModel) for item in value):
            for number, item in enumerate(value):
                yield from _describe(item, f"{path}.{number}", blocks, given=given)
        case dict() if value:
            for key, item in value.items():
                yield from _describe(item, f"{path}.{key}", blocks, given=given)
        case _:
            yield Described(path=path, value=_shown(value), origin="set" if given else "default")


def _shown(value: Any) -> str:  # noqa: PLR0911 - one case for each kind of value
    match value:
        case None:
            return NOT_SET
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case timedelta():
            return format_duration(value)
        case Enum():
            return str(value.value)
        case Rule():
            return value.id
        case tuple() | list() | dict():
            return ", ".join(map(_shown, value)) or "none"
    return str(value) or EMPTY
