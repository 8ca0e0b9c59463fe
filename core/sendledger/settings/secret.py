"""A secret that cannot be printed by accident."""

from __future__ import annotations

from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


class Secret:
    """Text that shows as ``***`` wherever it is formatted; ``reveal`` is the one way to it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the secret text."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Accept only an already resolved secret: plain text in a settings file is refused."""
        return core_schema.is_instance_schema(cls)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the two references that a settings file writes in place of a secret."""
        return {"oneOf": [_reference("$env", "variable"), _reference("$file", "file")]}


def _reference(key: str, holder: str) -> JsonSchemaValue:
    return {
        "type": "object",
        "description": f"The {holder} that holds the secret.",
        "properties": {key: {"type": "string"}},
        "required": [key],
        "additionalProperties": False,
    }
