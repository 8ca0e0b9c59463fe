"""Recipients as JSON lines: nested values, and a bad line that holds only itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plan_kit import NOTHING, School

LISTED = ("the grade is {{grade}}.", "{{#grade}}{{subject}}: {{mark}} {{/grade}}")
PLAIN = ("<p>{{name}} has {{grade}}</p>", "<p>{{name}}</p>")


def pupil(number: int, **changes: Any) -> dict[str, Any]:
    row = {
        "student_id": f"s{number}",
        "first_name": f"Child {number}",
        "guardian_email": f"p{number}@home.test",
        "grade": [{"subject": "Art", "mark": "B"}],
    }
    return row | changes


def line(number: int, **changes: Any) -> bytes:
    return json.dumps(pupil(number, **changes), ensure_ascii=False).encode()


@pytest.fixture
def lines(school: School) -> School:
    """Return the school with a batch that lists grades."""
    school.write_batch(LISTED, PLAIN)
    return school


def plan(school: School, content: bytes, *options: str) -> tuple[int, str, str]:
    file = school.folder / "spring.jsonl"
    file.write_bytes(content)
    done = school.plan(*options, recipients=file)
    return done.code, done.out, done.err


def test_lists_and_objects_are_kept_and_shown(lines: School) -> None:
    named = ("Report for {{name}}", "Report for {{name.first}} {{name.last}}")
    html = ("<p>{{name}} has {{grade}}</p>", "<p>{{name.last}}</p>")
    lines.write_batch(LISTED, named, html, ("of {{name}},", "of {{name.first}},"))
    first = line(1, first_name={"first": "Ann", "last": "Bo"})
    second = line(2, first_name={"first": "Cy", "last": 7}, grade=[])
    third = line(3, first_name={"first": "Di"})

    code, out, _ = plan(lines, b"\n\n".join([first, second, third]))

    assert (code, out.partition(",")[0]) == (1, "planned 2")
    assert [row[:3] for row in lines.rejected()] == [["5", "first_name", "name.last has no value"]]
    kept = lines.select("SELECT variables FROM sendledger.recipient_secret ORDER BY intent_id")
    assert kept == [
        (
            {
                "grade": [{"mark": "B", "subject": "Art"}],
                "name": {"first": "Ann", "last": "Bo"},
            },
        ),
        ({"grade": [], "name": {"first": "Cy", "last": 7}},),
    ]


def test_a_whole_number_is_an_id(lines: School) -> None:
    assert plan(lines, line(1, student_id=17))[0] == 0
    assert lines.select("SELECT recipient_id FROM sendledger.recipient_secret") == [("17",)]


@pytest.mark.parametrize(
    ("bad", "column", "reason"),
    [
        (b'{"student_id": "s1", "x"}', "", "not valid JSON (Expecting ':' delimiter, column 25)"),
        (b"{" * 9_000, "", "not valid JSON"),
        (b'{"a":' * 100_000, "", "too deeply"),
        (b"[" * 2 + b"]" * 2, "", "the line is no JSON object"),
        (b'"s1"', "", "the line is no JSON object"),
        (b"\xff" + line(1), "", "the line is not UTF-8"),
        (line(1)[:-1] + b', "grade": 1}', "", "a key is given twice"),
        (line(1, grade=[{"mark": 1}]).replace(b"1}]", b"NaN}]"), "", "a number is not finite"),
        (line(1, grade=0).replace(b": 0", b": 1e999"), "grade", "the value is no finite number"),
        (line(1, grade=0).replace(b": 0", b": " + b"1" * 5_000), "", "a number is too long"),
        (line(1, grade=["\0"]), "grade", "the value holds a NUL character"),
        (line(1).replace(b'"Art"', rb'"\ud800"'), "grade", "half a character pair"),
        (line(1).replace(b'"grade"', b'"grades"'), "grade", "the key is missing"),
        (line(1).replace(b'"student_id"', b'"id"'), "student_id", "the key is missing"),
        (line(1, student_id=1.5), "student_id", "the value is no text"),
        (line(1, student_id=True), "student_id", "the value is no text"),
        (line(1, student_id=None), "student_id", "the recipient id is empty"),
        (line(1, guardian_email=None), "guardian_email", "the destination is empty"),
        (line(1, guardian_email=["p@home.test"]), "guardian_email", "the value is no text"),
        (line(1, first_name=None), "first_name", "the value is empty"),
        (line(1, first_name=" "), "first_name", "the value is empty"),
        (
            line(1, first_name=[]),
            "first_name",
            "found a list; the content shows a text or a number",
        ),
        (line(1, grade=[{"subject": "Art"}]), "", "mark has no value"),
    ],
)
def test_a_bad_line_is_told_and_holds_only_itself(
    lines: School, bad: bytes, column: str, reason: str
) -> None:
    code, out, _ = plan(lines, b"\n".join([line(7), bad, line(8), b""]))
    assert code == 1
    assert out.startswith("planned 2,")
    ((at, found, said, remedy),) = lines.rejected()
    assert (at, found) == ("2", column)
    assert reason in said
    assert remedy
    assert "home.test" not in lines.rejects.read_text()


def test_null_says_that_there_is_nothing_to_list(lines: School) -> None:
    assert plan(lines, line(1, grade=None) + b"\n" + line(2, grade=[]))[0] == 0


def test_the_same_again_is_known_in_whatever_order_its_keys_are(lines: School) -> None:
    grade = {"subject": "Art", "mark": "B"}
    assert plan(lines, line(1, grade=[grade]))[0] == 0
    again = line(1, grade=[dict(reversed(grade.items()))])
    assert plan(lines, again)[1] == "planned 0, already planned 1, rejected 0\n"
    code, _, err = plan(lines, line(1, grade=[{**grade, "mark": "C"}]))
    assert code == 2
    assert "differs in variables.grade (line 1)" in err


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "spring.jsonl: there are no recipients; add them"),
        (b"\xef\xbb\xbf\n \n", "spring.jsonl: there are no recipients; add them"),
        (b"\n[\n" + line(1) + b"\n]\n", "spring.jsonl line 2: found a JSON list"),
        (line(1) + b"\n" + b"a" * 1_000_001, "spring.jsonl line 2: longer than a megabyte"),
    ],
)
def test_a_file_that_is_no_lines_of_json_plans_nothing(
    lines: School, content: bytes, sentence: str
) -> None:
    code, _, err = plan(lines, content)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1
    assert lines.counts() == NOTHING


def test_the_format_may_be_told_where_the_name_does_not(lines: School) -> None:
    file = lines.folder / "people.txt"
    file.write_bytes(b"\xef\xbb\xbf" + line(1) + b"\r\n" + line(2))
    assert lines.plan("--format", "jsonl", recipients=file).code == 0
    assert lines.counts()[2] == 2
    assert lines.plan("--format", "xml", recipients=file).code == 2


def test_rejects_go_beside_the_file_by_its_name(lines: School) -> None:
    assert plan(lines, b"{}\n" + line(1))[0] == 1
    assert (lines.folder / "spring.rejects.csv").exists()
    assert not list(Path(lines.folder).glob("*.jsonl.rejects.csv"))
