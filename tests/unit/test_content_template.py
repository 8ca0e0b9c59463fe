"""Templates: what they may say, what they show, and that they agree with combustache about both."""

from __future__ import annotations

from typing import Any

import combustache
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendledger.content import TemplateError, UnusableValue, compile_template


def render(source: str, *, html: bool = True, **values: Any) -> str:
    return compile_template(source, name="text", html=html).render(values)


@pytest.mark.parametrize(
    ("source", "remedy", "line", "column"),
    [
        ("Dear {{{name}}}", "without escaping", 1, 6),
        ("Dear\n {{&name}}", "without escaping", 2, 2),
        ("{{=<% %>=}}<%{name}%>", "delimiters", 1, 1),
        ("a {{= | | =}} |name|", "delimiters", 1, 3),
        ("{{>footer}}", "unknown partial", 1, 1),
        ("{{>*which}}", "unknown partial", 1, 1),
        ("{{<layout}}{{/layout}}", "inheritance", 1, 1),
        ("{{$title}}x{{/title}}", "inheritance", 1, 1),
        ("Dear {{name", "not closed", 1, 6),
        ("Dear {{{name}}", "not closed", 1, 6),
        ("{{#a}}x", "add {{/a}}", 1, 1),
        ("{{#a}}\n{{#b}}\n{{/a}}{{/b}}", "{{/b}}", 3, 1),
        ("x{{/a}}", "never opened", 1, 2),
        ("{{#a}}{{^a}}x{{/a}}{{/a}}", "contradicts", 1, 7),
        ("{{}}", "a name consists", 1, 1),
        ("{{first name}}", "a name consists", 1, 1),
        ("{{items.0}}", "a name consists", 1, 1),
        ("{{name.__class__}}{{a..b}}", "a name consists", 1, 19),
        ("{{.}}", "inside", 1, 1),
        ("{{#a}}" * 21 + "{{/a}}" * 21, "20 deep", 1, 121),
        ("{{name}}\ud800", "surrogate", 0, 0),
    ],
)
def test_a_refused_template_is_named_with_place_and_remedy(
    source: str, remedy: str, line: int, column: int
) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(source, name="html", html=True)
    assert remedy in caught.value.sentence
    assert (caught.value.part, caught.value.line, caught.value.column) == ("html", line, column)
    assert str(caught.value).startswith("html")


@pytest.mark.parametrize(
    ("source", "values", "shown"),
    [
        ("Hi {{name}}!", {"name": "Ann"}, "Hi Ann!"),
        ("{{ a }}{{b.c}}", {"a": 1, "b": {"c": 2.5}}, "12.5"),
        ("{{#on}}yes{{/on}}{{^on}}no{{/on}}", {"on": True}, "yes"),
        ("{{#on}}yes{{/on}}{{^on}}no{{/on}}", {"on": None}, "no"),
        ("{{#all}}<{{.}}>{{/all}}", {"all": ["a", 2]}, "<a><2>"),
        (
            "{{#all}}{{n}}{{x}} {{/all}}",
            {"x": "o", "all": [{"n": 1}, {"n": 2, "x": "i"}]},
            "1o 2i ",
        ),
        ("{{#a}}{{#.}}{{.}}{{/.}}|{{/a}}", {"a": [[1, 2], [3]]}, "12|3|"),
        ("a\n{{#on}}\nb\n{{/on}}\nc", {"on": True}, "a\nb\nc"),
        ("a\r\n  {{! aside }}\r\nb", {}, "a\r\nb"),
        ("@media{a{b:c}}", {}, "@media{a{b:c}}"),
        ("", {}, ""),
    ],
)
def test_a_template_shows_its_values(source: str, values: dict[str, Any], shown: str) -> None:
    assert render(source, **values) == shown


def test_only_html_parts_escape() -> None:
    value = '<a href="x">&\''
    assert render("{{v}}", html=True, v=value) == "&lt;a href=&quot;x&quot;&gt;&amp;&#x27;"
    assert render("{{v}}", html=False, v=value) == value


@pytest.mark.parametrize(
    ("source", "values", "name"),
    [
        ("{{name}}", {}, "name"),
        ("{{name}}", {"name": None}, "name"),
        ("{{#on}}x{{/on}}", {}, "on"),
        ("{{^off}}x{{/off}}", {}, "off"),
        ("{{a.b}}", {"a": {}}, "a.b"),
        ("{{a.b.c}}", {"a": {"b": "text"}}, "a.b.c"),
        ("{{#all}}{{name}}{{/all}}", {"all": [{"name": "x"}, {}]}, "name"),
    ],
)
def test_a_missing_variable_is_an_error_that_names_it(
    source: str, values: dict[str, Any], name: str
) -> None:
    with pytest.raises(KeyError) as caught:
        render(source, **values)
    assert caught.value.args == (name,)


class Trap:
    """Fails the test when anything but its type is looked at."""

    name = "reached by attribute"

    def __call__(self) -> str:
        raise AssertionError("a value was called")

    def __str__(self) -> str:
        raise AssertionError("a value was turned into text")

    def __bool__(self) -> bool:
        raise AssertionError("a value was asked for its truth")

    def __len__(self) -> int:
        raise AssertionError("a value was asked for its length")


@pytest.mark.parametrize("source", ["{{v}}", "{{#v}}x{{/v}}", "{{^v}}x{{/v}}", "{{v.name}}"])
def test_objects_are_neither_called_nor_walked(source: str) -> None:
    with pytest.raises(KeyError):
        render(source, v=Trap())


@pytest.mark.parametrize("value", [["secret"], {"secret": "secret"}, b"secret", len])
def test_a_value_that_cannot_be_shown_is_refused_by_type_and_never_quoted(value: Any) -> None:
    with pytest.raises(UnusableValue) as caught:
        render("{{v}}", v=value)
    assert "secret" not in str(caught.value)
    assert type(value).__name__ in str(caught.value)


@pytest.mark.parametrize(
    ("source", "variables"),
    [
        ("{{a}} {{b.c}} {{! d }}", {"a", "b"}),
        ("{{#a}}{{b}}{{/a}}", {"a"}),
        ("{{^a}}{{b}}{{#c}}{{d}}{{/c}}{{/a}}", {"a", "b", "c"}),
    ],
)
def test_variables_are_what_every_recipient_must_supply(source: str, variables: set[str]) -> None:
    assert compile_template(source, name="text", html=False).variables == variables


# --- agreement with combustache --------------------------------------------------------------

SCALARS = st.one_of(st.text("a<&\"'{}", max_size=5), st.integers(-9, 9), st.booleans())
ITEMS = st.one_of(SCALARS, st.fixed_dictionaries({}, optional={"v": SCALARS, "w": SCALARS}))
VALUES = st.fixed_dictionaries(
    {
        "v": SCALARS,
        "w": SCALARS,
        "list": st.lists(ITEMS, max_size=3),
        "flag": st.one_of(st.booleans(), st.none()),
        "deep": st.fixed_dictionaries({"v": SCALARS, "list": st.lists(ITEMS, max_size=2)}),
    }
)
TEXT = st.text(" \n\r\tx<", max_size=6)
LEAVES = st.one_of(
    TEXT,
    st.sampled_from(["{{v}}", "{{ w }}", "{{deep.v}}", "{{! note }}", "{{!\nlong\nnote}}\n", "\n"]),
)


def _section(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.sampled_from(["list", "flag", "deep", "deep.list", "v"])
    ends = st.sampled_from(["", "\n", " \n", "\r\n"])
    return st.builds(
        lambda mark, name, body, end: f"{{{{{mark}{name}}}}}{end}{body}{{{{/{name}}}}}{end}",
        st.sampled_from("#^"),
        names,
        inside,
        ends,
    )


TEMPLATES = st.recursive(
    LEAVES,
    lambda inside: st.one_of(_section(inside), st.lists(inside, max_size=4).map("".join)),
    max_leaves=12,
)


@given(source=TEMPLATES, values=VALUES)
def test_what_is_supported_reads_as_combustache_reads_it(
    source: str, values: dict[str, Any]
) -> None:
    try:
        compiled = compile_template(source, name="html", html=True)
    except TemplateError as refused:
        assert "contradicts" in refused.sentence  # noqa: PT017 - the one thing the strategy may build
        return
    assert compiled.render(values) == combustache.render(source, values)


@given(st.text("{}#^/=!>&<$.* ab\n", max_size=40))
def test_any_text_compiles_or_is_refused_and_keeps_no_tag(source: str) -> None:
    try:
        compiled = compile_template(source, name="text", html=False)
    except TemplateError:
        return
    assert not any("{{" in text for text in compiled.static)
