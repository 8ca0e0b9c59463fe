"""A recipient's variables as they are stored: JSON that Postgres takes, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from sendledger.ledger.identity import variables_text

_NUL = r"\u0000"
"""A NUL as JSON spells it; the same six characters after a backslash are plain text."""


class VariableRefused(ValueError):  # noqa: N818 - a refusal is the word for it
    """A variable holds what cannot be stored; says its name and why, never the value."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


def write_variables(variables: Mapping[str, Any]) -> str:
    """Return *variables* as JSON, the text that is digested too. Raises :class:`VariableRefused`."""
    try:
        text = variables_text(variables)
        text.encode()
    except (TypeError, ValueError, RecursionError):
        _refuse_first(variables)
        raise
    if _NUL in text:
        _refuse_first(variables)
    return text


def _refuse_first(variables: Mapping[str, Any]) -> None:
    for name, value in variables.items():
        try:
            fault = _fault(value)
        except RecursionError:
            fault = "the value is nested too deeply"
        if fault:
            raise VariableRefused(name, fault) from None


def _fault(value: Any) -> str | None:
    match value:
        case str():
            return _text_fault(value)
        case None | bool() | int():
            return None
        case float():
            return None if math.isfinite(value) else "the value is no finite number"
        case Mapping():
            return _first_fault([*value, *value.values()])
        case list() | tuple():
            return _first_fault(value)
    return (
        f"the value is a {type(value).__name__}; expected text, numbers, lists or mappings of them"
    )


def _first_fault(values: Iterable[Any]) -> str | None:
    return next(filter(None, map(_fault, values)), None)


def _text_fault(text: str) -> str | None:
    if "\0" in text:
        return "the value holds a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "the value holds half a character pair"
    return None
