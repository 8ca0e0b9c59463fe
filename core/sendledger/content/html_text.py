"""A text for those who read no HTML: what a browser would show of it, with the addresses of its links."""

from __future__ import annotations

import re
from itertools import pairwise

from inscriptis import Inscriptis
from inscriptis.css_profiles import STRICT_CSS_PROFILE
from inscriptis.model.config import ParserConfig
from lxml.etree import ParserError
from lxml.html import (
    HtmlComment,
    HtmlElement,
    HTMLParser,
    document_fromstring,
    fragment_fromstring,
)

from sendledger.content.errors import TemplateError
from sendledger.content.shield import Shielded, shield, without_comments
from sendledger.content.tags import OPEN, check_tags, fault_at

_REMEDY = "write the part text yourself"
_COLUMN_GAP = re.compile(r"(?<=\S) {3,}")
_BLANK_LINES = re.compile(r"\n{3,}")
_BARE_LINK = re.compile(r"\[([^\]\s]+)\]\(\1\)")
"""A link whose text is its address."""
_ROW = {
    "tr": "<td>{}</td>",
    **dict.fromkeys(("table", "tbody", "thead", "tfoot"), "<tr><td>{}</td></tr>"),
}


def read_as_text(source: str, *, part: str) -> str:
    """Return a text template for the HTML template *source*.

    What is hidden has no text, and neither have the tags in it; all others keep their order. Raises
    :class:`TemplateError` when no text can be made.
    """
    shielded = shield(without_comments(source, " "), silent_as_comment=frozenset({"table"}))
    shown = _tidy(_shown(shielded))
    if OPEN in shown:
        sentence = f"spells {OPEN} with character references, which a text cannot; {_REMEDY}"
        raise TemplateError(sentence, part=part)
    _refuse_moved(shielded, shown, part)
    text = _BARE_LINK.sub(r"\1", shielded.restore(shown))
    try:
        check_tags(text, part=part)
    except TemplateError as error:
        raise TemplateError(
            f"no text can be made of it: {error.sentence}; or {_REMEDY}", part=part
        ) from None
    return text


def _shown(shielded: Shielded) -> str:
    try:
        tree = document_fromstring(shielded.text.encode(), parser=_parser())
    except ParserError:
        return ""  # there is nothing but comments in it
    for node in list(tree.iter()):
        if not isinstance(node, HtmlComment):
            node.attrib.pop("align", None)  # nobody knows how wide the values will be
        elif shielded.found(f"<!--{node.text}-->"):
            _uncomment(node)
    config = ParserConfig(css=STRICT_CSS_PROFILE.copy(), display_links=True)
    shown: str = Inscriptis(tree, config).get_text()
    return shown


def _parser() -> HTMLParser:
    # Whatever the text declares it to be encoded in, and however deep its boxes are nested.
    return HTMLParser(encoding="utf-8", huge_tree=True)


def _uncomment(comment: HtmlComment) -> None:
    """Give a tag between rows a row of its own, and one between cells a cell."""
    parent: HtmlElement = comment.getparent()
    shape = _ROW.get(parent.tag, "<span>{}</span>")
    row = fragment_fromstring(shape.format(comment.text), create_parent=False)
    row.tail = comment.tail
    parent.replace(comment, row)


def _refuse_moved(shielded: Shielded, shown: str, part: str) -> None:
    # The address of a link comes after its text, and in HTML before it.
    places = shielded.places
    numbers = [n for n in shielded.found(shown) if places[n].context != "quoted"]
    for number, following in pairwise(numbers):
        if number >= following:
            start = places[following].tag.start
            sentence = f"{shielded.written(following)} would stand elsewhere in a text; {_REMEDY}"
            raise fault_at(shielded.source, start, sentence, part=part)


def _tidy(text: str) -> str:
    """Return *text* without the blanks that laid out its tables and boxes."""
    lines = [_COLUMN_GAP.sub("  ", line.rstrip()) for line in text.split("\n")]
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip("\n") + "\n"
