"""Carry tags through what knows HTML and nothing of Mustache, and tell where they would not survive.

A tag is replaced by a word that stands nowhere else, or by a comment where HTML allows no text. Sections
around the rows of a table are the usual case: a parser that met text there would move it before the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from combustache import nodes

from sendledger.content.tags import Tag, find_tags

_PIECE = re.compile(
    r"(?P<comment><!--.*?-->)"
    r"|(?P<raw><(?P<name>style|script|title|textarea)\b.*?</(?P=name)\s*>)"
    r"|(?P<markup><(?P<end>/?)(?P<element>[a-z][^\s/>]*)(?:\"[^\"]*\"|'[^']*'|[^>\"'])*>)",
    re.DOTALL | re.IGNORECASE,
)
_QUOTED = re.compile(r"=\s*(?:\"[^\"]*\"|'[^']*')")
_CELLS = frozenset({"td", "th", "caption"})
_ROWS = frozenset({"tr", "thead", "tbody", "tfoot"})
_SILENT = (nodes.Section, nodes.Inverted, nodes.Closing, nodes.Comment)
"""Kinds that show nothing where they stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a tag stands.

    ``context`` is ``text``, ``table`` outside of its cells, ``quoted`` or else ``markup`` within a tag of
    HTML, ``comment``, or the name of an element whose text is no markup.
    """

    tag: Tag
    context: str

    @property
    def silent(self) -> bool:
        """Whether the tag itself shows nothing."""
        return issubclass(self.tag.kind, _SILENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shielded:
    """HTML with its tags replaced; ``places`` are theirs, and ``strays`` begin text outside of cells."""

    text: str
    source: str = field(repr=False)
    places: tuple[Place, ...]
    strays: tuple[int, ...]
    mark: re.Pattern[str]

    def found(self, text: str) -> list[int]:
        """Return the numbers of the tags whose replacements stand in *text*, in that order."""
        return [int(match[1]) for match in self.mark.finditer(text)]

    def restore(self, text: str) -> str:
        """Return *text* with the tags put back."""
        return self.mark.sub(lambda match: self.written(int(match[1])), text)

    def written(self, number: int) -> str:
        """Return a tag as it was written."""
        tag = self.places[number].tag
        return self.source[tag.start : tag.end]


def shield(source: str, *, silent_as_comment: frozenset[str]) -> Shielded:
    """Return *source*, HTML whose tags were checked, with all of them replaced.

    Those that show nothing become comments in the contexts *silent_as_comment*.
    """
    tags = list(find_tags(source))
    places, strays = _places(without_comments(source, "x"), tags)
    word = "tag"
    while word in source:
        word += "x"
    pieces: list[str] = []
    end = 0
    for number, place in enumerate(places):
        replaced = f"{word}{number}z"
        if place.silent and place.context in silent_as_comment:
            replaced = f"<!--{replaced}-->"
        pieces += [source[end : place.tag.start], replaced]
        end = place.tag.end
    return Shielded(
        text="".join([*pieces, source[end:]]),
        source=source,
        places=tuple(places),
        strays=tuple(strays),
        mark=re.compile(rf"(?:<!--)?{word}([0-9]+)z(?:-->)?"),
    )


def without_comments(source: str, ink: str) -> str:
    """Return *source* with Mustache comments painted over: of all tags only they may hold markup."""
    for tag in find_tags(source):
        if tag.kind is nodes.Comment:
            source = f"{source[: tag.start]}{ink * (tag.end - tag.start)}{source[tag.end :]}"
    return source


def _places(source: str, tags: list[Tag]) -> tuple[list[Place], list[int]]:
    places: list[Place] = []
    strays: list[int] = []
    open_cells: list[str] = []
    waiting = iter(tags)
    tag = next(waiting, None)
    for start, end, piece in _pieces(source):
        shown = source[start:end]
        while tag is not None and tag.start < end:
            context = _context(piece, tag.start, open_cells)
            places.append(Place(tag=tag, context=context))
            blank = " " * (tag.end - tag.start)
            shown = shown[: tag.start - start] + blank + shown[tag.end - start :]
            tag = next(waiting, None)
        if piece is None and _outside_cells(open_cells) and shown.strip():
            strays.append(start + len(shown) - len(shown.lstrip()))
        if piece is not None and piece["markup"]:
            _follow(piece, open_cells)
    return places, strays


def _pieces(source: str) -> Iterator[tuple[int, int, re.Match[str] | None]]:
    """Yield the spans of *source*, None with those that are text."""
    end = 0
    for piece in _PIECE.finditer(source):
        if end < piece.start():
            yield end, piece.start(), None
        yield piece.start(), piece.end(), piece
        end = piece.end()
    if end < len(source):
        yield end, len(source), None


def _context(piece: re.Match[str] | None, at: int, open_cells: list[str]) -> str:
    if piece is None:
        return "table" if _outside_cells(open_cells) else "text"
    if piece["comment"]:
        return "comment"
    if piece["raw"]:
        return piece["name"].lower()
    quoted = any(
        piece.start() + found.start() < at < piece.start() + found.end()
        for found in _QUOTED.finditer(piece[0])
    )
    return "quoted" if quoted else "markup"


def _outside_cells(open_cells: list[str]) -> bool:
    return bool(open_cells) and open_cells[-1] == "table"


def _follow(piece: re.Match[str], open_cells: list[str]) -> None:
    """Keep the tables and cells that are open; a cell may be closed by the next one, or by a row."""
    element = piece["element"].lower()
    if element == "table" and not piece["end"]:
        open_cells.append(element)
        return
    if element in _CELLS | _ROWS | {"table"}:
        while open_cells and open_cells[-1] != "table":
            open_cells.pop()
    if element == "table" and open_cells:
        open_cells.pop()
    if element in _CELLS and not piece["end"] and open_cells:
        open_cells.append(element)
