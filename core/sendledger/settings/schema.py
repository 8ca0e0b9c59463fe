"""JSON Schemas with which an editor completes and checks the settings and policy files.

Run ``python -m sendledger.settings.schema NAME=MODULE...`` to print the one for settings; each MODULE is
a channel plugin with a ``settings_model``. With ``--policy`` it prints the one for policies.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from sendledger.ledger.durations import format_duration
from sendledger.settings.model import NAME, ChannelSettings, Settings
from sendledger.settings.policy import PolicySettings

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_WRAP = re.compile(r"(?<!\n)\n(?!\n)")

# An editor types scalars by YAML 1.1; we read each as text, so a number or a bare NO is text as well.
_WIDENED = {
    "string": ["string", "number", "boolean"],
    "integer": ["integer", "string"],
    "number": ["number", "string"],
    "boolean": ["boolean", "string"],
}


def json_schema(plugin_models: Mapping[str, type[BaseModel]]) -> dict[str, Any]:
    """Return the schema of a settings file whose channels use the plugins in *plugin_models*, by name.

    A channel of any other plugin may hold any settings.
    """
    schema = Settings.model_json_schema(schema_generator=_Generator)
    definitions = schema["$defs"]
    definitions["DatabaseSettings"] |= {
        "oneOf": [{"required": ["embedded"]}, {"required": ["dsn"]}],
        "dependentRequired": {"direct_dsn": ["dsn"]},
    }
    schema["properties"]["database"] = {
        "oneOf": [{"const": "embedded"}, {"$ref": "#/$defs/DatabaseSettings"}]
    }
    base = definitions.pop(ChannelSettings.__name__)
    for plugin, model in sorted(plugin_models.items()):
        block = model.model_json_schema(
            ref_template=f"#/$defs/{plugin}.{{model}}", schema_generator=_Generator
        )
        nested = block.pop("$defs", {})
        definitions |= {f"{plugin}.{name}": nested[name] for name in nested}
        definitions[f"{plugin}.settings"] = block
    schema["properties"]["channels"] = {
        "type": "object",
        "patternProperties": {NAME: {"oneOf": _channels(base, sorted(plugin_models))}},
        "additionalProperties": False,
    }
    return {"$schema": DIALECT, "title": "Sendledger settings", **_as_written(schema)}


def policy_schema() -> dict[str, Any]:
    """Return the schema of a policy file."""
    schema = PolicySettings.model_json_schema(schema_generator=_Generator)
    return {"$schema": DIALECT, "title": "Sendledger policy", **_as_written(schema)}


def render(schema: Mapping[str, Any]) -> str:
    """Return *schema* as the text of a file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


class _Generator(GenerateJsonSchema):
    """Writes defaults as a settings file would; those of whole blocks stand at their fields already."""

    def encode_default(self, dft: Any) -> Any:
        """Return *dft* as JSON, or None to leave it out."""
        match dft:
            case timedelta():
                return format_duration(dft)
            case BaseModel() | dict():
                return None
        return super().encode_default(dft)


def _channels(base: dict[str, Any], plugins: list[str]) -> list[dict[str, Any]]:
    """Return a shape for the channels of each plugin, and one for all others."""
    shapes = [
        _channel(base, {"const": plugin}, {"$ref": f"#/$defs/{plugin}.settings"})
        for plugin in plugins
    ]
    other = {"type": "string", "pattern": NAME, "not": {"enum": plugins}}
    return [*shapes, _channel(base, other, {"type": "object"})]


def _channel(base: dict[str, Any], plugin: Any, settings: Any) -> dict[str, Any]:
    properties = {**base["properties"], "plugin": plugin, "settings": settings}
    return {**base, "properties": properties, "required": ["plugin"]}


def _as_written(found: Any) -> Any:
    """Return *found* for a file in which nothing is null and every scalar is text."""
    match found:
        case {"anyOf": [shape, {"type": "null"}], **rest}:
            return _as_written({**shape, **rest})
        case dict():
            kept = {
                key: _as_written(item) for key, item in found.items() if not _is_noise(key, item)
            }
            return _widen(kept)
        case list():
            return [_as_written(item) for item in found]
        case str():
            return _WRAP.sub(" ", found.replace("``", "`"))
    return found


def _is_noise(key: str, item: Any) -> bool:
    return (key == "title" and isinstance(item, str)) or (key == "default" and item is None)


def _widen(shape: dict[str, Any]) -> dict[str, Any]:
    kind = shape.get("type")
    # A pattern or a choice is for texts: a duration without a unit is no duration.
    if not isinstance(kind, str) or kind not in _WIDENED or {"pattern", "enum"} & shape.keys():
        return shape
    return {**shape, "type": _WIDENED[kind]}


def _main(arguments: list[str]) -> str:
    if arguments == ["--policy"]:
        return render(policy_schema())
    pairs = (argument.partition("=") for argument in arguments)
    return render(
        json_schema({name: import_module(module).settings_model for name, _, module in pairs})
    )


if __name__ == "__main__":
    sys.stdout.write(_main(sys.argv[1:]))
