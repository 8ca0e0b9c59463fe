"""YAML as a tree of texts with line numbers: no types are guessed, and nothing is lost in silence.

YAML 1.1 reads ``NO`` as false, ``21:00`` as 1260, ``010`` as 8 and ``+15005550006`` as a number. Here a
scalar is the text that was written; what it means is decided by the typed model that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.reader import ReaderError

from sendledger.settings.problems import KeyPath, SettingsError, problem

DEPTH_MAX = 32
SIZE_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the first character of a text stands, counted from 1; each of its lines begins in that column.

    ``file`` is the one that was read, None for the file of the tree.
    """

    line: int
    column: int
    file: Path | None = None

    def place(self, line: int, column: int) -> tuple[int, int]:
        """Return where *line* and *column* of the text stand in the file."""
        return self.line + line - 1, self.column + column - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A scalar as written; ``repr`` hides it, for it may be a secret in the wrong place.

    ``origin`` is None where characters of the file are not those of the text: folded, or escaped.
    """

    value: str
    line: int
    origin: Origin | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"Text(line={self.line})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list; each item has its own line."""

    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A mapping; the line of an entry is the line of its key."""

    entries: Mapping[str, Node]
    line: int


Node = Text | Items | Block


def read_yaml(file: Path) -> Block:
    """Return the one mapping that *file* holds.

    Raises :class:`SettingsError` when the file cannot be read, is not UTF-8, is no single YAML mapping,
    repeats a key, leaves a value out, or uses anchors, aliases or tags.
    """
    return parse_yaml(read_text(file), file=str(file))


def parse_yaml(text: str, *, file: str) -> Block:
    """Return the one mapping that *text* holds; *file* names it in errors, as :func:`read_yaml`."""
    root = _compose(text, file)
    problems: list[str] = []
    tree = _convert(root, (), _line_of(root), problems)
    if not isinstance(tree, Block):
        problems.append(
            problem((), tree.line, "expected keys with values, such as 'database: embedded'")
        )
    if problems or not isinstance(tree, Block):
        raise SettingsError(problems, file=file)
    return tree


def at(node: Node, path: KeyPath) -> Node:
    """Return the node at *path* below *node*, or the deepest one that exists on the way to it."""
    for step in path:
        match node:
            case Block() if step in node.entries:
                node = node.entries[str(step)]
            case Items() if isinstance(step, int) and step < len(node.items):
                node = node.items[step]
            case _:
                return node
    return node


def read_text(file: Path) -> str:
    """Return the UTF-8 text of *file*, at most a megabyte. Raises :class:`SettingsError`."""
    try:
        if file.is_dir():
            raise SettingsError(["this is a folder; name a file in it"], file=str(file))
        with file.open("rb") as stream:
            content = stream.read(SIZE_MAX_BYTES + 1)
    except FileNotFoundError:
        raise SettingsError(
            ["there is no such file; name an existing one"], file=str(file)
        ) from None
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        raise SettingsError([f"it cannot be read: {reason}"], file=str(file)) from None
    if len(content) > SIZE_MAX_BYTES:
        raise SettingsError(["it is larger than a megabyte; is it the right file?"], file=str(file))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SettingsError([f"line {line}: not UTF-8; save it as UTF-8"], file=str(file)) from None


class _RefusedError(Exception):
    """A piece of YAML that settings do not use; ``line`` counts from 1."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line = line
        self.sentence = sentence


class _TextLoader(yaml.SafeLoader):
    """Composes plain nodes only. Without resolvers every scalar stays the text it was written as."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - overrides an attribute of the base class
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose the next node unless it is an alias, has an anchor or a tag, or is too deep."""
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        line = _line_of(event)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _RefusedError(
                line, "anchors and aliases (& and *) are not used; write it out, or quote the text"
            )
        if getattr(event, "tag", None) is not None:
            raise _RefusedError(line, "tags (!) are not used; remove it, or quote the text")
        if self.depth >= DEPTH_MAX:
            raise _RefusedError(line, f"nested more than {DEPTH_MAX} levels deep")
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _compose(text: str, file: str) -> yaml.Node:
    try:
        loader = _TextLoader(text)
        nodes: list[yaml.Node] = []
        while loader.check_node() and (node := loader.get_node()):
            nodes.append(node)
    except _RefusedError as refused:
        raise SettingsError([problem((), refused.line, refused.sentence)], file=file) from None
    except yaml.YAMLError as error:
        raise SettingsError([_not_yaml(error, text)], file=file) from None
    if not nodes:
        raise SettingsError(["it is empty; begin with a copy of an example"], file=file)
    if len(nodes) > 1:
        line = _line_of(nodes[1])
        sentence = "a second document begins; keep one document to a file"
        raise SettingsError([problem((), line, sentence)], file=file)
    return nodes[0]


def _line_of(place: yaml.Event | yaml.Node) -> int:
    return place.start_mark.line + 1 if place.start_mark else 0


def _not_yaml(error: yaml.YAMLError, text: str) -> str:
    # PyYAML's own sentence may quote the text it stumbled over; its context never does.
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return problem(
            (), line, "holds a control character, which YAML does not allow; take it out"
        )
    mark, context = getattr(error, "problem_mark", None), getattr(error, "context", None)
    if mark and text[mark.index : mark.index + 1] == "\t":
        return problem((), mark.line + 1, "a tab stands here; YAML is indented with spaces alone")
    sentence = (
        f"not valid YAML{f' ({context})' if context else ''}; check indentation, colons and quotes"
    )
    return problem((), mark.line + 1, sentence) if mark else sentence


def _convert(node: yaml.Node, path: KeyPath, line: int, problems: list[str]) -> Node:
    match node:
        case yaml.MappingNode():
            return _convert_block(node, path, line, problems)
        case yaml.SequenceNode():
            items = [
                _convert(item, (*path, position), _line_of(item), problems)
                for position, item in enumerate(node.value)
            ]
            return Items(items=tuple(items), line=line)
        case _:
            if not node.value and _is_plain(node):
                problems.append(problem(path, line, "has no value; write one, or remove the key"))
            return Text(value=node.value, line=line, origin=_origin(node))


def _origin(node: yaml.Node) -> Origin | None:
    start, end, style = node.start_mark, node.end_mark, getattr(node, "style", None)
    if style == "|":
        return _block_origin(start, node.value)
    quotes = 0 if style is None else 1
    if start.line != end.line or end.column - start.column != len(node.value) + 2 * quotes:
        return None
    return Origin(line=start.line + 1, column=start.column + 1 + quotes)


def _block_origin(start: yaml.Mark, text: str) -> Origin | None:
    """Return where a literal block begins: below its mark, indented as its first line with anything on it."""
    below = (start.buffer or "")[start.pointer :].split("\n")[1:]
    for raw, line in zip(below, text.split("\n"), strict=False):
        if line:
            return Origin(line=start.line + 2, column=len(raw.rstrip("\r\0")) - len(line) + 1)
    return None


def _is_plain(node: yaml.Node) -> bool:
    return getattr(node, "style", None) is None  # unquoted; the stubs do not know the attribute


def _convert_block(node: yaml.MappingNode, path: KeyPath, line: int, problems: list[str]) -> Block:
    entries: dict[str, Node] = {}
    for key, value in node.value:
        key_line = _line_of(key)
        if not isinstance(key, yaml.ScalarNode):
            problems.append(problem(path, key_line, "a key must be plain text"))
            continue
        entry = _convert(value, (*path, key.value), key_line, problems)
        if key.value in entries:
            first = entries[key.value].line
            sentence = f"given twice, first on line {first}; keep one of them"
            problems.append(problem((*path, key.value), key_line, sentence))
            continue
        entries[key.value] = entry
    return Block(entries=entries, line=line)


def plain(node: Node) -> Any:
    """Return *node* as dicts, lists and text."""
    match node:
        case Text(value=value):
            return value
        case Items(items=items):
            return [plain(item) for item in items]
        case Block(entries=entries):
            return {name: plain(item) for name, item in entries.items()}
