"""From plain values to typed models, and from pydantic's errors to sentences with path and line."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from sendledger.settings.problems import KeyPath, SettingsError, problem
from sendledger.settings.secret import Secret
from sendledger.settings.yaml_text import Block, Items, Node, Text, at

SECRETS = "secrets are given as {$env: NAME} or {$file: path}, not written here"

_Model = TypeVar("_Model", bound=BaseModel)

_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "decimal_parsing": "a number",
    "dict_type": "a block of keys with values",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a number",
    "is_instance_of": "a block of keys with values",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_attributes_type": "a block of keys with values",
    "model_type": "a block of keys with values",
    "path_type": "a path",
    "string_type": "a text",
    "tuple_type": "a list",
}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
_BOUND_ERRORS = {
    "greater_than": "gt",
    "greater_than_equal": "ge",
    "less_than": "lt",
    "less_than_equal": "le",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RawBlock:
    """A block of a settings file that another model will type: :func:`validate_block`.

    ``data`` holds texts, lists, dictionaries, and a ``Secret`` for each reference.
    """

    data: Mapping[str, Any]
    node: Block
    where: KeyPath
    file: str
    folder: Path

    def problem(self, sentence: str) -> SettingsError:
        """Return an error about this block as a whole."""
        return SettingsError([problem(self.where, self.node.line, sentence)], file=self.file)

    def __repr__(self) -> str:
        return f"RawBlock({'.'.join(map(str, self.where))}, line {self.node.line})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Pass a block through untouched."""
        return core_schema.is_instance_schema(cls)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Promise no more than a mapping."""
        return {"type": "object"}


def validate_block(model: type[_Model], block: RawBlock) -> _Model:
    """Return *block* typed as *model*. Raises :class:`SettingsError` with all its problems."""
    try:
        return model.model_validate(dict(block.data), context={"folder": block.folder})
    except ValidationError as error:
        raise SettingsError(explain(error, model, block), file=block.file) from None


def explain(error: ValidationError, model: type[BaseModel], block: RawBlock) -> list[str]:
    """Return a sentence for each error in *block*, in the order of the file, none quoting a value."""
    details = error.errors(include_url=False, include_input=False)
    found = [_explain_one(detail, model, block) for detail in _genuine(details)]
    return [sentence for _, sentence in sorted(found, key=lambda pair: pair[0])]


def _genuine(details: list[ErrorDetails]) -> Iterator[ErrorDetails]:
    """Leave out that a list is too short where an entry is at fault: pydantic does not count that one."""
    owners = {detail["loc"][:-1] for detail in details}
    for detail in details:
        if detail["type"] != "too_short" or detail["loc"] not in owners:
            yield detail


def _explain_one(detail: ErrorDetails, model: type[BaseModel], block: RawBlock) -> tuple[int, str]:
    # pydantic marks an error about a key of a mapping with a last step of its own
    steps = tuple(step for step in detail["loc"] if step != "[key]")
    node = at(block.node, steps)
    sentence = _sentence(detail, steps, model, block)
    return node.line, problem((*block.where, *steps), node.line, sentence)


def _sentence(detail: ErrorDetails, steps: KeyPath, model: type[BaseModel], block: RawBlock) -> str:
    kind, context, node = detail["type"], detail.get("ctx", {}), at(block.node, steps)
    if kind == "extra_forbidden":
        return _unknown_key(model, steps)
    if kind == "value_error":
        return _mask(str(context["error"]), node, _words(model, steps))
    if kind == "is_instance_of" and context.get("class") == Secret.__name__:
        return SECRETS
    if isinstance(_value_at(block.data, steps), Secret):
        return "this is no secret; write the value here instead of a reference"
    return _expectation(detail, _field_at(model, steps), node)


def _unknown_key(model: type[BaseModel], steps: KeyPath) -> str:
    names = sorted({name for owner in _models_at(model, steps[:-1]) for name in owner.model_fields})
    close = get_close_matches(str(steps[-1]), names, n=1)
    if close:
        return f"unknown key; did you mean {close[0]}?"
    return f"unknown key; known here: {', '.join(names) or 'none'}"


def _expectation(detail: ErrorDetails, field: FieldInfo | None, node: Node) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        forms = field.description if field is not None else None
        return f"is required: {forms}" if forms else "is required"
    if kind in {"literal_error", "enum"}:
        return f"expected {context['expected'].replace(chr(39), '')}"
    if kind in _BOUND_ERRORS:
        bound = _BOUND_ERRORS[kind]
        return f"expected {_number(field)} of {_BOUNDS[bound]} {_number_text(context[bound])}"
    if kind == "too_short":
        return f"expected a list of at least {context['min_length']}"
    if kind in _EXPECTED:
        bounds = " and ".join(_bounds(field))
        return f"expected {_EXPECTED[kind]}{f' of {bounds}' if bounds else ''}"
    return _mask(detail["msg"][:1].lower() + detail["msg"][1:], node, frozenset())


def _number(field: FieldInfo | None) -> str:
    return (
        "a whole number" if field is not None and int in _leaves(field.annotation) else "a number"
    )


def _bounds(field: FieldInfo | None) -> Iterator[str]:
    for rule in _rules(field) if field is not None else ():
        for name, words in _BOUNDS.items():
            if (bound := getattr(rule, name, None)) is not None:
                yield f"{words} {_number_text(bound)}"


def _rules(field: FieldInfo) -> Iterator[Any]:
    """Yield the constraints of *field*, those on one side of a union included."""
    yield from field.metadata
    for side in typing.get_args(field.annotation):
        for rule in getattr(side, "__metadata__", ()):
            yield from rule.metadata if isinstance(rule, FieldInfo) else (rule,)


def _number_text(bound: Any) -> str:
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


def _mask(sentence: str, node: Node, words: frozenset[str]) -> str:
    """Take out of *sentence* every text that *node* holds, unless it is one of the schema's own words."""
    for text in sorted(set(_texts(node)) - words, key=len, reverse=True):
        if len(text) > 2:  # noqa: PLR2004 - shorter texts are no secrets and stand inside other words
            sentence = sentence.replace(text, "***")
    return sentence


def _texts(node: Node) -> Iterator[str]:
    match node:
        case Text():
            yield node.value
        case Items():
            for item in node.items:
                yield from _texts(item)
        case Block():
            for entry in node.entries.values():
                yield from _texts(entry)


def _words(model: type[BaseModel], steps: KeyPath) -> frozenset[str]:
    """Return the closed words that may stand in an error at *steps*: keys, and values of choices."""
    owners = [*_models_at(model, steps), *_models_at(model, steps[:-1])]
    fields = {name: field for owner in owners for name, field in owner.model_fields.items()}
    choices = {leaf for field in fields.values() for leaf in _leaves(field.annotation)}
    return frozenset(fields) | {leaf for leaf in choices if isinstance(leaf, str)}


def _value_at(found: Any, steps: KeyPath) -> Any:
    for step in steps:
        try:
            found = found[step]
        except (KeyError, IndexError, TypeError):
            return None
    return found


def _field_at(model: type[BaseModel], steps: KeyPath) -> FieldInfo | None:
    for depth in range(len(steps), 0, -1):
        for owner in _models_at(model, steps[: depth - 1]):
            if (field := owner.model_fields.get(str(steps[depth - 1]))) is not None:
                return field
    return None


def _models_at(model: type[BaseModel], steps: typing.Iterable[str | int]) -> list[type[BaseModel]]:
    owners = [model]
    for step in steps:
        fields = [owner.model_fields.get(str(step)) for owner in owners]
        leaves = {
            leaf for field in fields if field is not None for leaf in _leaves(field.annotation)
        }
        # A step that is no field is an entry of a mapping or list: the same models stand behind it.
        owners = [leaf for leaf in leaves if _is_model(leaf)] if any(fields) else owners
    return owners


def _is_model(leaf: Any) -> bool:
    return isinstance(leaf, type) and issubclass(leaf, BaseModel)


def _leaves(annotation: Any) -> Iterator[Any]:
    """Yield the plain types that *annotation* is made of, and the words of its choices."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is Literal:
        yield from arguments
    elif typing.get_origin(annotation) is Annotated:
        yield from _leaves(arguments[0])
    elif arguments:
        for argument in arguments:
            yield from _leaves(argument)
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from (member.value for member in annotation)
    else:
        yield annotation
