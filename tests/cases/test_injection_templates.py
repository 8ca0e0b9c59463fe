"""Injection cases inj-03 and inj-05: what people typed can never become markup or a template."""

from __future__ import annotations

import pytest

from sendledger.content import TemplateError, compile_template


@pytest.mark.parametrize("html", [True, False])
@pytest.mark.parametrize(
    "source",
    ["Dear {{{name}}}", "Dear {{&name}}", "{{=<% %>=}}Dear <%{name}%>", "{{=<% %>=}}<%&name%>"],
)
def test_inj_03_an_unescaped_placeholder_is_refused_at_registration(
    source: str, html: bool
) -> None:
    with pytest.raises(TemplateError, match=r"without escaping|delimiters"):
        compile_template(source, name="text", html=html)


def test_inj_03_a_name_with_markup_reaches_an_html_part_as_text() -> None:
    template = compile_template("<p>Dear {{name}}</p>", name="html", html=True)
    shown = template.render({"name": '<img src=x onerror="alert(1)">'})
    assert shown == "<p>Dear &lt;img src=x onerror=&quot;alert(1)&quot;&gt;</p>"


def test_inj_05_template_syntax_in_a_value_is_shown_and_never_read() -> None:
    value = "{{{secret}}} {{7*7}} ${x} {% raw %}"
    values = {"name": value, "secret": "opened"}
    for html in (True, False):
        template = compile_template("Hello {{name}}", name="text", html=html)
        assert template.render(values) == f"Hello {value}"


def test_inj_05_a_value_that_came_through_a_section_is_no_template_either() -> None:
    template = compile_template("{{#all}}{{.}};{{/all}}", name="text", html=False)
    assert template.render({"all": ["{{all}}", "{{#all}}"]}) == "{{all}};{{#all}};"
