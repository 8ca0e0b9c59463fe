"""Compile a Mustache part to flat texts that are joined with a recipient's values.

combustache parses, so that standalone lines and pairing are its own; rendering is ours, because its
rendering calls what it is given, walks attributes, and shows nothing for what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Protocol

from combustache import Template, nodes

from sendledger.content.errors import UnusableValue
from sendledger.content.tags import check_tags, refuse_halves

Frames = list[Any]
"""The values in reach, outermost first; only dictionaries have names to look up."""

_ABSENT = object()


class Piece(Protocol):
    """A piece of a template that depends on values."""

    def text(self, frames: Frames) -> str:
        """Return what this piece says about *frames*. Raises ``KeyError`` as ``render``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Splice:
    """Texts that are the same for everybody, and the pieces between them: one text more than pieces."""

    static: tuple[str, ...]
    pieces: tuple[Piece, ...]

    def fill(self, frames: Frames) -> list[str]:
        """Return the text of each piece."""
        return [piece.text(frames) for piece in self.pieces]

    def text(self, frames: Frames) -> str:
        """Return all of it joined."""
        return join(self.static, self.fill(frames))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledTemplate:
    """One part, ready for recipients.

    ``variables`` are the names that every recipient must supply: all those outside of sections. What a
    section needs depends on its values, so only ``render`` can tell; ``names`` are all that it may look up.
    """

    name: str
    variables: frozenset[str]
    names: frozenset[str]
    body: Splice = field(repr=False)

    @property
    def static(self) -> tuple[str, ...]:
        """The texts around what :meth:`splice` returns: one before each of it, and one after the last."""
        return self.body.static

    def splice(self, values: Mapping[str, Any]) -> list[str]:
        """Return what stands between the static texts for *values*. Raises as :meth:`render`."""
        return self.body.fill([values])

    def render(self, values: Mapping[str, Any]) -> str:
        """Splice *values* in: text, numbers, booleans, and lists and dictionaries of them.

        Values are data: none is called, walked by attribute, or read as a template. Raises ``KeyError``
        with the name of a variable that is missing or None, :class:`UnusableValue` for one of no such type.
        """
        return self.body.text([values])


def join(static: Sequence[str], spliced: Sequence[str]) -> str:
    """Return *spliced* between the texts of *static*."""
    texts = [""] * (len(static) + len(spliced))
    texts[::2] = static
    texts[1::2] = spliced
    return "".join(texts)


def compile_template(source: str, *, name: str, html: bool) -> CompiledTemplate:
    """Return *source*, the part called *name*, compiled; with *html* its values are escaped as HTML.

    Supports variables, dotted names, sections, inverted sections, ``{{.}}`` and comments. Raises
    :class:`TemplateError` for anything else.
    """
    refuse_halves(source, part=name)
    check_tags(source, part=name)
    body = _compile(Template(source), _escape_html if html else _keep)
    return CompiledTemplate(
        name=name,
        variables=frozenset(_required(body)),
        names=frozenset(_named(body)) - {"."},
        body=body,
    )


def _compile(template: Template, encode: Callable[[str], str]) -> Splice:
    static, pieces = [""], list[Piece]()
    # ``_list`` is combustache's parsed tree; it is private, hence the pinned version.
    for node in template._list:  # noqa: SLF001
        if isinstance(node, str):
            static[-1] += node
        else:
            static.append("")
            pieces.append(_piece(node, encode))
    return Splice(static=tuple(static), pieces=tuple(pieces))


def _piece(node: nodes.Node, encode: Callable[[str], str]) -> Piece:
    match node:
        case nodes.Inverted():
            return _Inverted(_path(node), _compile(node.inside, encode))
        case nodes.Section() if type(node) is nodes.Section:
            return _Section(_path(node), _compile(node.inside, encode))
        case nodes.Interpolation() if type(node) is nodes.Interpolation:
            path = _path(node)
            return _Variable(path[0], encode) if len(path) == 1 else _Dotted(path, encode)
    raise AssertionError(f"check_tags let a {type(node).__name__} through")


def _path(node: nodes.Node) -> tuple[str, ...]:
    return (".",) if node.contents == "." else tuple(node.contents.split("."))


def _required(body: Splice) -> Iterator[str]:
    for piece in body.pieces:
        match piece:
            case _Inverted(path, inside):
                yield path[0]
                # an inverted section opens no new frame: its names can only be the recipient's
                yield from _required(inside)
            case _Section(path, _) | _Dotted(path, _):
                yield path[0]
            case _Variable(name, _):
                yield name


def _named(body: Splice) -> Iterator[str]:
    for piece in body.pieces:
        match piece:
            case _Section(path, inside) | _Inverted(path, inside):
                yield path[0]
                yield from _named(inside)
            case _Dotted(path, _):
                yield path[0]
            case _Variable(name, _):
                yield name


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    encode: Callable[[str], str]

    def text(self, frames: Frames) -> str:
        # Nearly every value is a text in the innermost frame, and nearly all time is spent on these.
        frame = frames[-1]
        if type(frame) is dict and type(value := frame.get(self.name)) is str:
            return self.encode(value)
        return _shown((self.name,), frames, self.encode)


@dataclass(frozen=True, slots=True)
class _Dotted:
    path: tuple[str, ...]
    encode: Callable[[str], str]

    def text(self, frames: Frames) -> str:
        return _shown(self.path, frames, self.encode)


def _shown(path: tuple[str, ...], frames: Frames, encode: Callable[[str], str]) -> str:
    value = _look_up(path, frames)
    if isinstance(value, str):
        return encode(value)
    if isinstance(value, int | float):
        return encode(str(value))
    if value is None:
        raise KeyError(_name(path))
    raise UnusableValue(_name(path), type(value).__name__)


@dataclass(frozen=True, slots=True)
class _Section:
    path: tuple[str, ...]
    inside: Splice

    def text(self, frames: Frames) -> str:
        value = _plain(self.path, frames)
        items = value if isinstance(value, list | tuple) else (value,) if value else ()
        return "".join([self.inside.text([*frames, item]) for item in items])


@dataclass(frozen=True, slots=True)
class _Inverted:
    path: tuple[str, ...]
    inside: Splice

    def text(self, frames: Frames) -> str:
        return "" if _plain(self.path, frames) else self.inside.text(frames)


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
