"""Where a text stands in its file: line and column of what is wrong within it."""

from __future__ import annotations

from pathlib import Path

import pytest

from plan_kit import BATCH
from sendledger.settings.batch import load_batch
from sendledger.settings.yaml_text import Text, at, parse_yaml

PLACES = [
    "key: a {{x}} b",
    "key:   'a {{x}} b'",
    'key: "a {{x}} b"',
    "other: 1\nkey: |\n  a {{x}} b\n",
    "key: |\n\n\n    first\n    a {{x}} b\n",
    "key: |2\n    a {{x}} b\n",
    "key: |-\n  a {{x}} b",
    "key: |\r\n  first\r\n  a {{x}} b\r\n",
    "key: ü {{x}}",
]


@pytest.mark.parametrize("source", PLACES)
def test_a_place_in_a_text_is_a_place_in_its_file(source: str) -> None:
    text = at(parse_yaml(source, file="f.yaml"), ("key",))
    assert isinstance(text, Text)
    assert text.origin is not None
    start = text.value.index("{{")
    line = text.value.count("\n", 0, start) + 1
    column = start - text.value.rfind("\n", 0, start)
    line, column = text.origin.place(line, column)
    assert source.split("\n")[line - 1][column - 1 :].startswith("{{x}}")


@pytest.mark.parametrize(
    "source",
    [
        "key: >\n  a\n  {{x}}\n",
        'key: "a\\u00fc {{x}}"',
        "key: 'it''s {{x}}'",
        "key: a\n  {{x}}",
        "key: |\n\n",
    ],
)
def test_no_place_is_told_where_the_text_is_not_as_it_stands(source: str) -> None:
    text = at(parse_yaml(source, file="f.yaml"), ("key",))
    assert isinstance(text, Text)
    assert text.origin is None


def test_a_fault_within_a_part_is_told_in_the_file_it_was_written_in(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("<p>\n  {{x}}</p>\n")
    text = BATCH.replace("html: <p>{{name}} has {{grade}}</p>", "html: {$file: report.html}")
    (tmp_path / "batch.yaml").write_text(text)
    batch = load_batch(tmp_path / "batch.yaml")
    fault = batch.fault(("content", "html"), "is wrong", line=2, column=3)
    assert str(fault) == f"{tmp_path}/report.html: content.html (line 2, column 3): is wrong"
    assert batch.place(("content", "html"), line=2, column=3) == (
        f"{tmp_path}/report.html line 2, column 3"
    )
    fault = batch.fault(("content", "text"), "is wrong", line=2, column=4)
    assert str(fault) == f"{tmp_path}/batch.yaml: content.text (line 12, column 8): is wrong"


def test_a_fault_within_a_folded_part_is_told_by_its_line_in_the_text(tmp_path: Path) -> None:
    text = BATCH.replace(
        "subject: Report for {{name}}", "subject: >-\n    Report\n    for {{name}}"
    )
    (tmp_path / "batch.yaml").write_text(text)
    batch = load_batch(tmp_path / "batch.yaml")
    fault = batch.fault(("content", "subject"), "is wrong", line=1, column=12)
    assert str(fault).endswith("content.subject (line 9): line 1, column 12 of the text: is wrong")
    assert batch.place(("content", "subject"), line=1, column=12).endswith("batch.yaml line 9")
