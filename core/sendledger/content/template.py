"""Compile a Mustache part to flat segments that are joined with a recipient's values.

combustache parses, so that standalone lines and pairing are its own; rendering is ours, because its
rendering calls what it is given, walks attributes, and shows nothing for what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, Protocol

from combustache import Template, nodes

from sendledger.content.errors import TemplateError, UnusableValue
from sendledger.content.tags import check_tags

Frames = list[Any]
"""The values in reach, outermost first; only dictionaries have names to look up."""

_ABSENT = object()


class Segment(Protocol):
    """A piece of a template that depends on values."""

    def emit(self, frames: Frames, out: list[str]) -> None:
        """Append to *out* what this piece says about *frames*. Raises ``KeyError`` as ``render``."""


Segments = tuple["str | Segment", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledTemplate:
    """One part, ready for recipients.

    ``variables`` are the names that every recipient must supply: all those outside of sections. What a
    section needs depends on its values, so only ``render`` can tell; ``names`` are all that it may look up.
    """

    name: str
    variables: frozenset[str]
    names: frozenset[str]
    segments: Segments = field(repr=False)

    def render(self, values: Mapping[str, Any]) -> str:
        """Splice *values* in: text, numbers, booleans, and lists and dictionaries of them.

        Values are data: none is called, walked by attribute, or read as a template. Raises ``KeyError``
        with the name of a variable that is missing or None, :class:`UnusableValue` for one of no such type.
        """
        out: list[str] = []
        _emit(self.segments, [values], out)
        return "".join(out)


def compile_template(source: str, *, name: str, html: bool) -> CompiledTemplate:
    """Return *source*, the part called *name*, compiled; with *html* its values are escaped as HTML.

    Supports variables, dotted names, sections, inverted sections, ``{{.}}`` and comments. Raises
    :class:`TemplateError` for anything else.
    """
    if not _encodable(source):
        raise TemplateError("holds half a surrogate pair; it is not valid text", part=name)
    check_tags(source, part=name)
    segments = _compile(Template(source), _escape_html if html else _keep)
    return CompiledTemplate(
        name=name,
        variables=frozenset(_required(segments)),
        names=frozenset(_named(segments)) - {"."},
        segments=segments,
    )


def _compile(template: Template, encode: Callable[[str], str]) -> Segments:
    # ``_list`` is combustache's parsed tree; it is private, hence the pinned version.
    return tuple(_segment(node, encode) for node in template._list if node != "")  # noqa: SLF001


def _segment(node: str | nodes.Node, encode: Callable[[str], str]) -> str | Segment:
    match node:
        case str():
            return node
        case nodes.Inverted():
            return _Inverted(_path(node), _compile(node.inside, encode))
        case nodes.Section() if type(node) is nodes.Section:
            return _Section(_path(node), _compile(node.inside, encode))
        case nodes.Interpolation() if type(node) is nodes.Interpolation:
            return _Variable(_path(node), encode)
    raise AssertionError(f"check_tags let a {type(node).__name__} through")


def _path(node: nodes.Node) -> tuple[str, ...]:
    return (".",) if node.contents == "." else tuple(node.contents.split("."))


def _required(segments: Segments) -> Iterator[str]:
    for segment in segments:
        match segment:
            case _Inverted(path, inside):
                yield path[0]
                # an inverted section opens no new frame: its names can only be the recipient's
                yield from _required(inside)
            case _Section(path, _) | _Variable(path, _):
                yield path[0]


def _named(segments: Segments) -> Iterator[str]:
    for segment in segments:
        match segment:
            case _Section(path, inside) | _Inverted(path, inside):
                yield path[0]
                yield from _named(inside)
            case _Variable(path, _):
                yield path[0]


def _emit(segments: Segments, frames: Frames, out: list[str]) -> None:
    for segment in segments:
        if isinstance(segment, str):
            out.append(segment)
        else:
            segment.emit(frames, out)


@dataclass(frozen=True, slots=True)
class _Variable:
    path: tuple[str, ...]
    encode: Callable[[str], str]

    def emit(self, frames: Frames, out: list[str]) -> None:
        value = _look_up(self.path, frames)
        if isinstance(value, str):
            out.append(self.encode(value))
        elif isinstance(value, int | float):
            out.append(self.encode(str(value)))
        elif value is None:
            raise KeyError(".".join(self.path))
        else:
            raise UnusableValue(_name(self.path), type(value).__name__)


@dataclass(frozen=True, slots=True)
class _Section:
    path: tuple[str, ...]
    inside: Segments

    def emit(self, frames: Frames, out: list[str]) -> None:
        value = _plain(self.path, frames)
        for item in value if isinstance(value, list | tuple) else (value,) if value else ():
            _emit(self.inside, [*frames, item], out)


@dataclass(frozen=True, slots=True)
class _Inverted:
    path: tuple[str, ...]
    inside: Segments

    def emit(self, frames: Frames, out: list[str]) -> None:
        if not _plain(self.path, frames):
            _emit(self.inside, frames, out)


def _plain(path: tuple[str, ...], frames: Frames) -> Any:
    """Return a value whose truth is plain: asking an unknown object for it would call the object."""
    value = _look_up(path, frames)
    if value is None or isinstance(value, str | int | float | list | tuple | Mapping):
        return value
    raise UnusableValue(_name(path), type(value).__name__)


def _look_up(path: tuple[str, ...], frames: Frames) -> Any:
    """Return the value at *path*: its first step in the innermost frame that has it, the rest below that."""
    first = path[0]
    if first == ".":
        return frames[-1]
    for frame in reversed(frames):
        # asked of nearly every frame; the abstract class would take four times as long to answer
        if (type(frame) is dict or isinstance(frame, Mapping)) and first in frame:
            value = frame[first]
            break
    else:
        raise KeyError(_name(path))
    for step in path[1:]:
        value = value.get(step, _ABSENT) if isinstance(value, Mapping) else _ABSENT
        if value is _ABSENT:
            raise KeyError(_name(path))
    return value


def _name(path: tuple[str, ...]) -> str:
    return ".".join(path)


def _escape_html(text: str) -> str:
    return escape(text, quote=True)


def _keep(text: str) -> str:
    return text


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
