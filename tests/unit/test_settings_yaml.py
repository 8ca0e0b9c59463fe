"""YAML as text: what is written is what is read, and nothing is dropped in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendledger.settings.problems import SettingsError
from sendledger.settings.yaml_text import Block, Items, Text, at, parse_yaml, read_yaml


def read(text: str) -> Block:
    return parse_yaml(text, file="x.yaml")


def refused(text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read(text)
    return caught.value.problems


@pytest.mark.parametrize(
    "written",
    ["NO", "off", "~", "null", "21:00", "010", "08", "1.10", "0x1F", "1_000", "+15005550006",
     "2026-03-01", ".inf", "pa$USERword", "${NAME}", "a: b".replace(": ", ":")],
)  # fmt: skip
def test_every_scalar_is_the_text_that_was_written(written: str) -> None:
    assert read(f"key: {written}").entries["key"] == Text(value=written, line=1)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=20))
def test_a_quoted_text_survives_whatever_it_holds(text: str) -> None:
    quoted = text.replace("'", "''").replace("\x85", "").replace("\u2028", "").replace("\u2029", "")
    if "\ufeff" in quoted or "\ufffe" in quoted or "\uffff" in quoted:
        return  # YAML does not let these through at all
    node = read(f"key: '{quoted}'").entries["key"]
    assert isinstance(node, Text)
    assert node.value == quoted.replace("''", "'")


def test_lines_are_those_of_the_keys() -> None:
    tree = read("a: 1\nb:\n  c:\n    - x\n    - y\n  d: |\n    long\n    text\n")
    assert at(tree, ("b",)).line == 2
    assert at(tree, ("b", "c")).line == 3
    assert at(tree, ("b", "c", 1)) == Text(value="y", line=5)
    assert at(tree, ("b", "d")).line == 6
    assert at(tree, ("b", "nothing", "below")).line == 2
    assert isinstance(at(tree, ("b", "c")), Items)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a:\n  b: 1\n  b: 2\n", "a.b (line 3): given twice, first on line 2; keep one of them"),
        ("a: 1\n'a': 2\n", "a (line 2): given twice, first on line 1; keep one of them"),
        ("a:\nb: 1\n", "a (line 1): has no value; write one, or remove the key"),
        (
            "a:\n  - x\n  -\n",
            "a.1 (line 3): has no value; write one, or remove the key",
        ),
        (
            "a: &x 1\n",
            "line 1: anchors and aliases (& and *) are not used; write it out, or quote the text",
        ),
        (
            "a: 1\nb: *a\n",
            "line 2: anchors and aliases (& and *) are not used; write it out, or quote the text",
        ),
        (
            "a: !!python/object:os.system x\n",
            "line 1: tags (!) are not used; remove it, or quote the text",
        ),
        ("a: !secret x\n", "line 1: tags (!) are not used; remove it, or quote the text"),
        ("a: ! x\n", "line 1: tags (!) are not used; remove it, or quote the text"),
        ("a: 1\n---\nb: 2\n", "line 3: a second document begins; keep one document to a file"),
        ("? [a]\n: 1\n", "line 1: a key must be plain text"),
        ("- a\n", "line 1: expected keys with values, such as 'database: embedded'"),
        ("hello", "line 1: expected keys with values, such as 'database: embedded'"),
        ("# nothing\n", "it is empty; begin with a copy of an example"),
        ("a:\n\tb: 1\n", "line 2: a tab stands here; YAML is indented with spaces alone"),
        ("a: b\nc:\td\te: f\n", "line 2: a tab stands here; YAML is indented with spaces alone"),
        (
            "a: b\nc: \0d\n",
            "line 2: holds a control character, which YAML does not allow; take it out",
        ),
        ("[" * 40, "line 1: nested more than 32 levels deep"),
    ],
)
def test_what_settings_do_not_use_is_refused_with_its_line(text: str, problem: str) -> None:
    assert refused(text) == [problem]


def test_all_repeated_keys_are_reported_at_once() -> None:
    assert len(refused("a: 1\na: 2\nb: 3\nb: 4\n")) == 2


@pytest.mark.parametrize(
    "text", ["a: %hunter22\n", "a: @hunter22\n", "a: 'hunter22\n", 'a: "\\q hunter22"\n', "a: !hunter22!x y\n",
             "a: hunter22: b\n", "a: [hunter22\n", "a: hunter22\n\tb: 1\n", "a: *hunter22\n", "a: hunter22\x07\n"]
)  # fmt: skip
def test_an_error_of_syntax_never_quotes_the_file(text: str) -> None:
    [problem] = refused(text)
    assert "hunter22" not in problem
    assert "line" in problem or "YAML" in problem


def test_a_file_that_cannot_be_read_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no such file"):
        read_yaml(tmp_path / "none.yaml")
    with pytest.raises(SettingsError, match="this is a folder"):
        read_yaml(tmp_path)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("a: 1\nb: Zürich\n".encode("latin-1"))
    with pytest.raises(SettingsError, match=r"latin\.yaml: line 2: not UTF-8"):
        read_yaml(latin)
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * 1_000_001)
    with pytest.raises(SettingsError, match="larger than a megabyte"):
        read_yaml(large)
    marked = tmp_path / "marked.yaml"
    marked.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_yaml(marked).entries["a"] == Text(value="1", line=1)
