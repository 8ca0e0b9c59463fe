"""What is made of MJML, of style sheets and of HTML: tags come through all of it, or are refused by place."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendledger.content import TemplateError, compile_template
from sendledger.content.typesetting import Typeset, typeset

SPEC = {"subject": False, "text": False, "html": True}
TAG = re.compile(r"{{.*?}}")


def made(*, inline_css: bool = False, **parts: str) -> Typeset:
    return typeset({"subject": "s", **parts}, SPEC, inline_css=inline_css)


def text_of(html: str) -> str:
    return made(html=html).parts["text"]


def mjml(column: str, *, head: str = "", around: str = "{}") -> str:
    section = f"<mj-section><mj-column>{column}</mj-column></mj-section>"
    return f"<mjml><mj-head>{head}</mj-head><mj-body>{around.format(section)}</mj-body></mjml>"


def refusal(*, inline_css: bool = False, **parts: str) -> TemplateError:
    with pytest.raises(TemplateError) as caught:
        made(inline_css=inline_css, **parts)
    return caught.value


def test_parts_without_html_are_sent_as_they_were_written() -> None:
    assert made(text="Hi {{name}}") == Typeset(
        parts={"subject": "s", "text": "Hi {{name}}"}, authored={}
    )


@pytest.mark.parametrize("part", ["subject", "text", "html", "mjml"])
@pytest.mark.parametrize("written", ["", " \n"])
def test_a_part_that_says_nothing_is_refused(part: str, written: str) -> None:
    told = refusal(inline_css=False, **{"text": "x", part: written})
    assert (told.part, told.sentence) == (
        part,
        "the part is empty; write what it says, or leave it out",
    )


def test_a_channel_without_html_is_left_its_parts_and_told_that_it_has_no_style_sheets() -> None:
    parts = {"text": "x", "html": "<p>x</p>"}
    assert typeset(parts, {"text": False}).parts == parts
    with pytest.raises(TemplateError, match=r"^inline_css: the channel has no HTML"):
        typeset(parts, {"text": False}, inline_css=True)


def test_what_was_written_is_kept_where_something_else_is_sent() -> None:
    source = mjml("<mj-text>{{name}}</mj-text>")
    found = made(mjml=source)
    assert found.authored == {"mjml": source}
    assert found.parts.keys() == {"subject", "html", "text"}
    assert made(html="<p>x</p>", text="x").authored == {}
    styled = "<style>p{color:red}</style><p>x</p>"
    assert made(html=styled, inline_css=True).authored == {"html": styled}


# --- MJML ----------------------------------------------------------------------------------------


def test_mjml_keeps_tags_in_texts_attributes_and_around_its_sections() -> None:
    source = mjml(
        '<mj-text css-class="{{kind}}">Dear {{name}}, {{#marks}}<b>{{subject}}</b> {{mark}}{{/marks}}</mj-text>'
        "<mj-table>{{#rows}}<tr><td>{{.}}</td></tr>{{/rows}}</mj-table>"
        '<mj-button href="https://school.test/{{id}}?a=1&amp;b={{term}}">{{label}}</mj-button>'
        '<mj-image src="https://school.test/{{picture}}.png" alt="{{words}}" />',
        head="<mj-title>For {{name}}</mj-title><mj-preview>{{glance}}</mj-preview>",
        around="{{{{#more}}}}{}{{{{/more}}}}",
    )
    html = made(mjml=source).parts["html"]
    assert set(TAG.findall(html)) == set(TAG.findall(source))
    values = {
        **dict.fromkeys(("kind", "name", "id", "term", "label", "picture", "words", "glance"), "v"),
        "more": True,
        "marks": [{"subject": "Art", "mark": "B"}, {"subject": "Music", "mark": "A"}],
        "rows": ["one", "two"],
    }
    shown = compile_template(html, name="html", html=True).render(values)
    assert "<b>Art</b> B<b>Music</b> A" in shown
    assert "<tr><td>one</td></tr><tr><td>two</td></tr>" in shown
    assert 'href="https://school.test/v?a=1&amp;b=v"' in shown


def test_mjml_fetches_no_font_unless_it_names_one() -> None:
    assert "https:" not in made(mjml=mjml("<mj-text>x</mj-text>")).parts["html"]
    font = '<mj-font name="School" href="https://fonts.school.test/s.css" />'
    named = made(mjml=mjml('<mj-text font-family="School">x</mj-text>', head=font)).parts["html"]
    assert "https://fonts.school.test/s.css" in named


@pytest.mark.parametrize(
    ("source", "sentence", "place"),
    [
        ("<mjml>\n {{{name}}}</mjml>", "without escaping", (2, 2)),
        (mjml("\n<mj-txt>x</mj-txt>"), "<mj-txt> is no element", (2, 1)),
        (mjml('\n<mj-include path="x.mjml" />'), "<mj-include> is no element", (2, 1)),
        (mjml("<mj-text>x"), "not valid MJML", (0, 0)),
        (mjml("").replace("<mj-column>", '\n<mj-column width="{{w}}">'), "{{w}} is lost", (2, 19)),
        ("no MJML at all {{name}}", "not valid MJML", None),
    ],
)
def test_mjml_that_cannot_be_rendered_is_refused(
    source: str, sentence: str, place: tuple[int, int] | None
) -> None:
    error = refusal(mjml=source)
    assert error.part == "mjml"
    assert sentence in error.sentence
    assert place is None or (error.line, error.column) == place


def test_mjml_beside_html_is_refused() -> None:
    assert "keep one of them" in refusal(mjml=mjml(""), html="x").sentence


def test_a_fault_of_what_mjml_became_is_told_in_the_words_of_the_author() -> None:
    style = "<mj-style>.a { color: {{colour}} }</mj-style>"
    error = refusal(mjml=mjml("<mj-text>x</mj-text>", head=f"\n{style}"), inline_css=True)
    assert (error.part, error.line, error.column) == ("mjml", 2, 23)
    assert "{{colour}} stands in a style sheet" in error.sentence


# --- style sheets --------------------------------------------------------------------------------


def test_rules_move_into_elements_and_what_a_reader_decides_stays() -> None:
    html = made(
        html="<style>.a{color:red} .a:hover{color:blue} @media print{.a{color:black}}</style>"
        '<p class="a">{{name}}</p>',
        inline_css=True,
    ).parts["html"]
    assert '<p class="a" style="color: red;">{{name}}</p>' in html
    assert ":hover" in html
    assert "@media print" in html
    assert "{color:red}" not in html


def test_sections_around_rows_stay_around_whole_rows() -> None:
    source = "<table>\n{{#rows}}\n<tr><td>{{.}}</td></tr>\n{{/rows}}\n</table>"
    html = made(html=source, inline_css=True).parts["html"]
    shown = compile_template(html, name="html", html=True).render({"rows": ["a", "b"]})
    assert shown.count("<tbody>") == shown.count("</tbody>") == 1
    assert re.sub(r"\s", "", shown[shown.index("<tbody>") : shown.index("</table>")]) == (
        "<tbody><tr><td>a</td></tr><tr><td>b</td></tr></tbody>"
    )


def test_a_section_around_a_body_of_a_table_keeps_the_body() -> None:
    source = "<table>{{#b}}<tbody><tr><td>x</td></tr></tbody>{{/b}}</table>"
    assert source in made(html=source, inline_css=True).parts["html"]


def test_nothing_that_is_linked_to_is_read_or_fetched(tmp_path: object) -> None:
    source = f'<link rel="stylesheet" href="{tmp_path}/none.css"><p>{{{{name}}}}</p>'
    assert f'href="{tmp_path}/none.css"' in made(html=source, inline_css=True).parts["html"]


@pytest.mark.parametrize(
    ("source", "sentence", "place"),
    [
        ("<p>{{name", "not closed", (1, 4)),
        ("<table>\n{{x}}<tr><td>a</td></tr></table>", "{{x}} stands in a table outside", (2, 1)),
        ("<table>\n a {{#x}}<tr><td>a</td></tr>{{/x}}</table>", "text stands in a table", (2, 2)),
        ("<table><tr><td>a</td>{{x}}</tr></table>", "{{x}} stands in a table outside", (1, 22)),
        ("<b {{#w}}class='x'{{/w}}>a</b>", "{{#w}} stands in a tag of HTML", (1, 4)),
        ("<a href={{url}}>x</a>", "{{url}} stands in a tag of HTML", (1, 9)),
        ("<style>\np{color:{{c}}}</style>", "{{c}} stands in a style sheet", (2, 9)),
        ('<p><a href="{{u}}"><p>x</p></a></p>', "{{u}} would be moved, lost or repeated", (1, 13)),
        ('<a class="{{c}}" class="{{d}}">x</a>', "{{d}} would be moved, lost or repeated", (1, 25)),
    ],
)
def test_a_tag_that_would_not_survive_is_refused_where_it_stands(
    source: str, sentence: str, place: tuple[int, int]
) -> None:
    error = refusal(html=source, inline_css=True)
    assert sentence in error.sentence
    assert (error.part, error.line, error.column) == ("html", *place)


@pytest.mark.parametrize(
    ("source", "sentence", "place"),
    [
        ("<p>\n<a href={{url}}>x</a>", "{{url}} stands in a tag of HTML", (2, 9)),
        ("<b {{words}}>x</b>", "{{words}} stands in a tag of HTML", (1, 4)),
        ("<script>var a = '{{x}}'</script>", "{{x}} stands in a script", (1, 18)),
        ("<p>\ud800</p>", "half a surrogate pair", (0, 0)),
    ],
)
def test_a_value_that_escaping_would_not_keep_a_value_is_refused(
    source: str, sentence: str, place: tuple[int, int]
) -> None:
    error = refusal(html=source)
    assert sentence in error.sentence
    assert (error.part, error.line, error.column) == ("html", *place)


def test_a_section_may_stand_in_a_tag_of_html() -> None:
    source = "<td {{#wide}}colspan='2'{{/wide}} title='{{x}}'>a</td>"
    assert made(html=source, text="x").parts["html"] == source


def test_there_must_be_html_to_move_rules_into() -> None:
    assert "add the part html" in refusal(text="x", inline_css=True).sentence


# --- a text of HTML ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>Dear {{name}} &amp; all</p>", "Dear {{name}} & all\n"),
        (
            '<p><a href="https://school.test/{{id}}?a=1&amp;b=2">Open {{x}}</a></p>',
            "[Open {{x}}](https://school.test/{{id}}?a=1&b=2)\n",
        ),
        ('<a href="https://a.test/{{x}}">https://a.test/{{x}}</a>', "https://a.test/{{x}}\n"),
        ("<p>a {{#x}}<b>b</b> {{/x}}c</p>", "a {{#x}}b {{/x}}c\n"),
        (
            "<table><tr><th>S</th><th>M</th></tr>{{#r}}<tr><td>{{s}}</td><td>{{m}}</td></tr>{{/r}}</table>",
            "S  M\n{{#r}}\n{{s}}  {{m}}\n{{/r}}\n",
        ),
        ("<ul>{{#r}}<li>{{.}}</li>{{/r}}</ul>", "    {{#r}}\n  * {{.}}\n    {{/r}}\n"),
        ('<div style="display:none">{{glance}}</div><p>{{name}}</p>', "{{name}}\n"),
        ("<head><title>{{t}}</title><style>p{a:b}</style></head><p>x</p>", "x\n"),
        ("{{! a <b> comment }}<p>x</p>", "x\n"),
        ("<!-- {{aside}} --><p>x</p><img alt='{{alt}}' src='x'>", "x\n"),
        ("<p>" + "<div>" * 600 + "deep" + "</div>" * 600, "deep\n"),
        ("<?xml version='1.0' encoding='latin-1'?><p>ü</p>", "ü\n"),
        ("<!-- nothing -->", "\n"),
        ("<br>", "\n"),
    ],
)
def test_html_has_a_text_beside_it(html: str, text: str) -> None:
    assert text_of(html) == text


def test_values_are_escaped_in_the_html_and_not_in_the_text_that_was_made_of_it() -> None:
    found = made(html="<p>Dear {{name}} &amp; all</p>").parts
    values = {"name": "O'Neill & <Sons>"}
    shown = {
        name: compile_template(found[name], name=name, html=name == "html").render(values)
        for name in ("html", "text")
    }
    assert shown["html"] == "<p>Dear O&#x27;Neill &amp; &lt;Sons&gt; &amp; all</p>"
    assert shown["text"] == "Dear O'Neill & <Sons> & all\n"


def test_a_text_that_was_written_is_taken_as_it_is() -> None:
    assert made(html="<p>x</p>", text="y").parts["text"] == "y"


def test_braces_as_character_references_are_refused_in_a_text() -> None:
    assert "character references" in refusal(html="<p>&#123;&#123;x}}</p>").sentence


def test_a_section_of_which_half_is_hidden_is_refused() -> None:
    error = refusal(html='{{#a}}x<div style="display:none">{{/a}}</div>')
    assert "no text can be made of it" in error.sentence


pieces = st.sampled_from(
    [
        *("<p>{}</p>", "<b>{}</b>", "<ul><li>{}</li></ul>", "<table><tr><td>{}</td></tr></table>"),
        *("{{{{#a}}}}{}{{{{/a}}}}", "{{{{^b}}}}{}{{{{/b}}}}", "<div style='color:red'>{}</div>"),
        *("<a href='https://x.test/{{{{u}}}}'>{}</a>", "{}{{{{v}}}}", "{{{{v}}}} {}", "&amp;{}"),
        *("<!-- {{{{w}}}} -->{}", "<i title='{{{{t}}}}'>{}</i>"),
    ]
)


@given(st.lists(pieces, max_size=6), st.booleans())
def test_html_of_any_shape_keeps_its_tags_in_order(shapes: list[str], inline_css: bool) -> None:
    source = "x"
    for shape in shapes:
        source = shape.format(source)
    try:
        found = made(html=source, inline_css=inline_css).parts
    except TemplateError as refused:
        assert "not valid" in refused.sentence  # noqa: PT017 - an <a> in an <a>, or a <p> in a <p>
        return
    assert TAG.findall(found["html"]) == TAG.findall(source)
    compile_template(found["text"], name="text", html=False)
