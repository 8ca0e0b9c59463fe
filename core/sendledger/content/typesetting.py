"""What authors write becomes what is sent, once, before anything is stored.

MJML becomes HTML, style sheets move into the elements they style, and HTML gets a text beside it for
those who read no HTML. Tags come through all of it, or the content is refused with the place of the tag.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from combustache import nodes

from sendledger.content.errors import TemplateError
from sendledger.content.shield import Shielded, shield
from sendledger.content.tags import check_tags, fault_at, find_tags, refuse_halves

MJML, HTML, TEXT = "mjml", "html", "text"

_ELEMENT = re.compile(r"<(mj-?[a-z-]*)")
_KNOWN = re.compile(
    r"mjml|mj-(?:head|attributes|all|class|breakpoint|font|html-attributes?|selector|preview|style|title"
    r"|body|accordion|accordion-(?:element|title|text)|button|carousel|carousel-image|column|divider|group"
    r"|hero|image|navbar|navbar-link|raw|section|social|social-element|spacer|table|text|wrapper)"
)
"""The elements of MJML 4 but mj-include: what is planned must not depend on other files."""
_UNQUOTED = "stands in a tag of HTML outside of quotes; put it into a quoted value"
_OPEN = {"markup": _UNQUOTED, "script": "stands in a script, which no mail needs; take it out"}
"""Where a value could become markup, whatever is escaped."""
_CLOSED = {
    "markup": _UNQUOTED,
    "style": "stands in a style sheet; write it in the style attribute of an element",
}
"""Where a parser of HTML would not keep a tag."""

_PLACE = re.compile(r" in root template(?: at position (\d+):\d+)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Typeset:
    """The parts as they are sent, and what was written in place of those that were made of it."""

    parts: Mapping[str, str]
    authored: Mapping[str, str]


def typeset(
    parts: Mapping[str, str], spec: Mapping[str, bool], *, inline_css: bool = False
) -> Typeset:
    """Return what is sent for *parts* as their author wrote them; *spec* is what the channel renders.

    A channel without an HTML part takes them as they are. Raises :class:`TemplateError`, for an empty
    part too: a file that was never saved would go out to everybody.
    """
    _refuse_empty(parts)
    made = dict(parts)
    if spec.get(HTML):
        if MJML in made:
            made[HTML] = _read_mjml(made)
        if HTML in made:
            made[HTML] = _made_of(made, _escapable)
        if inline_css:
            made[HTML] = _made_of(made, _inline_css)
        if HTML in made and TEXT not in made and spec.get(TEXT) is False:
            made[TEXT] = _made_of(made, _read_as_text)
        made.pop(MJML, None)
    elif inline_css:
        raise TemplateError("the channel has no HTML part; leave it out", part="inline_css")
    authored = {name: text for name, text in parts.items() if made.get(name) != text}
    return Typeset(parts=made, authored=authored)


def _refuse_empty(parts: Mapping[str, str]) -> None:
    for name, text in parts.items():
        if not text.strip():
            raise TemplateError("the part is empty; write what it says, or leave it out", part=name)


def _made_of(made: Mapping[str, str], make: Callable[..., str]) -> str:
    """Return what *make* makes of the HTML; a fault is told in the words that the author wrote."""
    if HTML not in made:
        raise TemplateError(
            "there is no HTML; add the part html, or leave it out", part="inline_css"
        )
    try:
        return make(made[HTML], part=HTML)
    except TemplateError as error:
        if MJML not in made:
            raise
        raise _in_mjml(error, made[HTML], made[MJML]) from None


def _in_mjml(error: TemplateError, html: str, mjml: str) -> TemplateError:
    """Return *error*, which is about a tag of *html*, with the place of that tag in *mjml*."""
    lines = html.split("\n")[: max(error.line - 1, 0)]
    start = sum(len(line) + 1 for line in lines) + error.column - 1
    written = next((html[t.start : t.end] for t in find_tags(html) if t.start == start), "")
    places = [tag.start for tag in find_tags(mjml) if mjml[tag.start : tag.end] == written]
    if not places:
        return TemplateError(error.sentence, part=MJML)
    # Counted from the end: what MJML repeats stands in the head.
    following = html.count(written, start + 1)
    return fault_at(mjml, places[max(-following - 1, -len(places))], error.sentence, part=MJML)


def _escapable(source: str, *, part: str) -> str:
    """Return *source* if its values stand where escaping is enough for them to stay values."""
    refuse_halves(source, part=part)
    check_tags(source, part=part)
    shielded = shield(source, silent_as_comment=frozenset())
    for number, place in enumerate(shielded.places):
        if not place.silent and place.context in _OPEN:
            sentence = f"{shielded.written(number)} {_OPEN[place.context]}"
            raise fault_at(source, place.tag.start, sentence, part=part)
    return source


# What follows is imported where it is used: planning may need none of it, and other commands never do.


def _read_as_text(source: str, *, part: str) -> str:
    from sendledger.content.html_text import read_as_text  # noqa: PLC0415

    return read_as_text(source, part=part)


# --- style sheets ----------------------------------------------------------------------------------


def _inline_css(source: str, *, part: str) -> str:
    """Return *source* with its style sheets in the elements; what only a reader can decide stays a sheet.

    Nothing is fetched and no file is read, whatever it links to.
    """
    from css_inline import CSSInliner, InlineError  # noqa: PLC0415

    shielded = shield(source, silent_as_comment=frozenset({"text", "table"}))
    _refuse_places(shielded, part)
    inliner = CSSInliner(
        keep_style_tags=True,
        keep_link_tags=True,
        keep_at_rules=True,
        remove_inlined_selectors=True,
        load_remote_stylesheets=False,
    )
    try:
        made = inliner.inline(shielded.text)
    except InlineError:
        sentence = "the style sheets cannot be read; check their braces and semicolons"
        raise TemplateError(sentence, part=part) from None
    _refuse_moved(shielded, made, part)
    return shielded.restore(_with_whole_bodies(shielded, made))


def _with_whole_bodies(shielded: Shielded, made: str) -> str:
    """Return *made* with the ``<tbody>`` that a parser adds before the sections around rows, not in them."""
    between = re.compile(rf"((?:{shielded.mark.pattern}\s*)+)<tbody>")
    written = shielded.text.lower()
    return between.sub(
        lambda found: found[0] if f"{found[1]}<tbody" in written else f"<tbody>{found[1]}", made
    )


def _refuse_places(shielded: Shielded, part: str) -> None:
    for number, place in enumerate(shielded.places):
        reason = _CLOSED.get(place.context)
        if place.context == "table" and not place.silent:
            reason = "stands in a table outside of its cells; put it into a cell"
        if reason is not None:
            sentence = f"{shielded.written(number)} {reason}"
            raise fault_at(shielded.source, place.tag.start, sentence, part=part)
    for start in shielded.strays:
        sentence = "text stands in a table outside of its cells; put it into a cell"
        raise fault_at(shielded.source, start, sentence, part=part)


def _refuse_moved(shielded: Shielded, made: str, part: str) -> None:
    """Refuse the first tag that is not where it was among the others, or is there twice."""
    found = shielded.found(made)
    wanted = range(len(shielded.places))
    if found == list(wanted):
        return
    missing = wanted[min(len(found), len(wanted) - 1)]
    number = next((n for n, at in zip(wanted, found, strict=False) if n != at), missing)
    sentence = (
        f"{shielded.written(number)} would be moved, lost or repeated: the HTML around it is not valid;"
        " close every element and give no attribute twice"
    )
    raise fault_at(shielded.source, shielded.places[number].tag.start, sentence, part=part)


# --- MJML ------------------------------------------------------------------------------------------


def _read_mjml(made: Mapping[str, str]) -> str:
    """Return the HTML of the MJML. No font is fetched unless the author names one; includes are refused."""
    from mjml import mjml2html  # noqa: PLC0415

    source = made[MJML]
    if HTML in made:
        raise TemplateError("there is html too; keep one of them", part=MJML)
    refuse_halves(source, part=MJML)
    check_tags(source, part=MJML)
    for element in _ELEMENT.finditer(source):
        if _KNOWN.fullmatch(element[1]) is None:
            sentence = (
                f"<{element[1]}> is no element of MJML that can be used here; see its spelling"
            )
            raise fault_at(source, element.start(), sentence, part=MJML)
    try:
        html = mjml2html(source, fonts={})
    except ValueError as error:
        raise _not_mjml(source, str(error)) from None
    _refuse_lost(source, html)
    return html


def _not_mjml(source: str, told: str) -> TemplateError:
    place = _PLACE.search(told)
    sentence = f"not valid MJML ({_PLACE.sub('', told)}); every element must be closed"
    if place is None or place[1] is None:
        return TemplateError(sentence, part=MJML)
    start = len(source.encode()[: int(place[1])].decode(errors="ignore"))
    return fault_at(source, start, sentence, part=MJML)


def _refuse_lost(source: str, html: str) -> None:
    for tag in find_tags(source):
        written = source[tag.start : tag.end]
        if tag.kind is not nodes.Comment and html.count(written) < source.count(written):
            sentence = (
                f"{written} is lost: MJML works with the value that stands here, and shows it nowhere;"
                " write the value itself"
            )
            raise fault_at(source, tag.start, sentence, part=MJML)
    try:
        check_tags(html, part=MJML)
    except TemplateError as error:
        raise TemplateError(f"as HTML {error.sentence}", part=MJML) from None
