"""Refuse what templates may not say, before any of it is compiled.

The tokens are combustache's own, so that no change of delimiters or spacing can hide a tag from us
that it would see. Its ``find_node`` and node classes are not documented: the version is pinned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from combustache import main, nodes

from sendledger.content.errors import TemplateError

OPEN, CLOSE = "{{", "}}"
DEPTH_MAX = 20

_NAME = re.compile(r"[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)*")

_REFUSED: dict[type[nodes.Node], str] = {
    nodes.Triple: "inserts a value without escaping; write it with two braces: {{name}}",
    nodes.Ampersand: "inserts a value without escaping; leave out the &: {{name}}",
    nodes.Delimiter: "changes the delimiters, which is not supported; keep {{ and }}",
    nodes.Partial: "names an unknown partial; write its text here instead",
    nodes.Block: "is a block for inheritance, which is not supported; write its text here instead",
    nodes.Parent: "is a parent for inheritance, which is not supported; write its text here instead",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A tag as found: its kind, the name in it, and where it begins and ends in the source."""

    kind: type[nodes.Node]
    name: str
    start: int
    end: int


def refuse_halves(source: str, *, part: str) -> None:
    """Raise :class:`TemplateError` when *source* holds half a surrogate pair."""
    try:
        source.encode()
    except UnicodeEncodeError:
        sentence = "holds half a surrogate pair; it is not valid text"
        raise TemplateError(sentence, part=part) from None


def check_tags(source: str, *, part: str) -> None:
    """Return if every tag of *source* may be used and every section is closed.

    Raises :class:`TemplateError` for the first that is not.
    """
    opened: list[Tag] = []
    end = 0
    for tag in find_tags(source):
        _refuse(_fault(tag, opened), source, tag.start, part)
        _follow(tag, opened)
        end = tag.end
    if (stray := source.find(OPEN, end)) >= 0:
        _refuse("the tag is not closed; end it with }}", source, stray, part)
    if opened:
        unclosed = opened[-1]
        _refuse(
            f"the section is not closed; add {{{{/{unclosed.name}}}}}", source, unclosed.start, part
        )


def find_tags(source: str) -> Iterator[Tag]:
    """Yield the tags of *source* in their order, whether they may be used or not."""
    end = 0
    while found := main.find_node(source, end, len(source), OPEN, CLOSE):
        kind, name, start, end = found
        yield Tag(kind=kind, name=name, start=start, end=end)


def fault_at(source: str, start: int, sentence: str, *, part: str) -> TemplateError:
    """Return an error about what begins at *start*."""
    line = source.count("\n", 0, start) + 1
    column = start - source.rfind("\n", 0, start)
    return TemplateError(sentence, part=part, line=line, column=column)


def first_use(source: str, name: str) -> int | None:
    """Return where *source* first looks up the variable *name*, None where it never does."""
    looked_up = (tag for tag in find_tags(source) if tag.kind is not nodes.Comment)
    return next((tag.start for tag in looked_up if tag.name.partition(".")[0] == name), None)


def _refuse(fault: str | None, source: str, start: int, part: str) -> None:
    if fault is not None:
        raise fault_at(source, start, fault, part=part)


def _fault(tag: Tag, opened: list[Tag]) -> str | None:
    if tag.kind in _REFUSED:
        return f"{{{{{tag.kind.left}{tag.name}{tag.kind.right}}}}} {_REFUSED[tag.kind]}"
    if tag.kind is nodes.Comment:
        return None
    if tag.name == ".":
        return None if opened else "{{.}} stands for the item of a section; put it inside one"
    if not _NAME.fullmatch(tag.name):
        return "a name consists of letters, digits, _ and -, joined by dots, each beginning with a letter"
    return _section_fault(tag, opened)


def _section_fault(tag: Tag, opened: list[Tag]) -> str | None:
    if tag.kind is nodes.Closing:
        if not opened:
            return f"{{{{/{tag.name}}}}} closes a section that was never opened; remove it"
        if opened[-1].name != tag.name:
            return f"{{{{/{tag.name}}}}} comes before {{{{/{opened[-1].name}}}}}; close the inner section first"
    elif tag.kind in {nodes.Section, nodes.Inverted}:
        # combustache pairs by name alone, and would close the outer one with the inner one's end
        if any(outer.name == tag.name and outer.kind is not tag.kind for outer in opened):
            return f"{{{{{tag.kind.left}{tag.name}}}}} contradicts the section of this name around it; remove it"
        if len(opened) >= DEPTH_MAX:
            return f"sections are nested more than {DEPTH_MAX} deep"
    return None


def _follow(tag: Tag, opened: list[Tag]) -> None:
    if tag.kind is nodes.Closing:
        opened.pop()
    elif tag.kind in {nodes.Section, nodes.Inverted}:
        opened.append(tag)
