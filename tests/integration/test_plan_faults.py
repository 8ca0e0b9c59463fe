"""A fault of the batch or of its files is one clear sentence, and plans nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from plan_kit import NOTHING, School, pupil


@pytest.mark.parametrize(
    ("found", "put", "sentence"),
    [
        ("purpose: school-reports\n", "", "batch.yaml: purpose (line 1): is required"),
        (
            "purpose:",
            "porpose: x\npurpose:",
            "porpose (line 4): unknown key; did you mean purpose?",
        ),
        ("channel: email", "channel: emial", "channel (line 3): no such channel is configured"),
        ("of {{name}},", "of {{{name}}},", "content.text (line 11, column 21): {{{name}}}"),
        ("of {{name}},", "of {{&name}},", "leave out the &: {{name}}"),
        (
            "of {{name}},",
            "of {{nick}},",
            "content.text (line 11, column 21): {{nick}} is supplied by no column",
        ),
        ("of {{name}},", "of {{name.first}},", "looks inside of a value"),
        (
            "first_name",
            "forename",
            'spring.csv line 1: found no column "forename", which {{name}} in',
        ),
        ("first_name", "firstname", 'did you mean "first_name"?'),
        ("guardian_email", "address", 'found no column "address"'),
        ("  subject: Report for {{name}}\n", "", "content.subject (line 8): the part is missing"),
        ("  html:", "  sms:", "content.sms (line 13): the channel has no such part"),
        (
            "  html:",
            "  settings: {from: a@b.test}\n  html:",
            "found from; email knows campaign, from_name",
        ),
        ("purpose:", "not_after: 2020-01-01T00:00:00Z\npurpose:", "not_after (line 4): has passed"),
    ],
)
def test_a_fault_of_the_batch_is_one_clear_sentence_and_plans_nothing(
    school: School, found: str, put: str, sentence: str
) -> None:
    school.write_rows([pupil(1), pupil(2, guardian_email="nobody")])
    school.write_batch((found, put))
    done = school.plan()
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert sentence in done.err
    assert school.counts() == NOTHING
    assert not school.rejects.exists()


def write(content: bytes) -> Callable[[Path], None]:
    def put(path: Path) -> None:
        path.write_bytes(content)

    return put


HEADER_LINE = b"student_id,first_name,guardian_email,grade\n"
GOOD_LINE = b"s1,Ann,p1@home.test,B\n"


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (write(b""), "line 1: expected a line with the names of the columns"),
        (write(HEADER_LINE + b"\n\r\n"), "there are no recipients below the header"),
        (write(HEADER_LINE.replace(b",", b";")), "the columns must be separated by commas"),
        (write(b"grade,grade\n"), "line 1: columns 1 and 2 have the same name"),
        (
            write(HEADER_LINE + GOOD_LINE + b's2,"Bo,p2@home.test,B\n'),
            "line 3: not valid CSV: a quoted value never ends",
        ),
        (
            write(HEADER_LINE + GOOD_LINE + b's2,"B"o,p2@home.test,B\n'),
            "line 3: not valid CSV: something follows a quoted value",
        ),
        (
            write(HEADER_LINE.replace(b"\n", b"\r") + GOOD_LINE.replace(b"\n", b"\r")),
            "line 1: not valid CSV: a carriage return stands alone",
        ),
        (write(HEADER_LINE + GOOD_LINE + b"s2,B\xf6,p2@home.test,B\n"), "line 3: not UTF-8"),
        (write(HEADER_LINE + GOOD_LINE + b"a" * 1_000_001), "line 3: longer than a megabyte"),
        (Path.mkdir, "cannot be read (is a directory)"),
        (lambda _: None, "cannot be read (no such file or directory)"),
    ],
)
def test_recipients_that_cannot_be_read_to_the_end_plan_nothing(
    school: School, prepare: Callable[[Path], None], sentence: str
) -> None:
    prepare(school.recipients)
    done = school.plan()
    assert done.code == 2
    assert done.err.startswith(f"sendledger: {school.recipients}")
    assert done.err.count("\n") == 1
    assert sentence in done.err
    assert school.counts() == NOTHING


def test_a_file_without_a_header_shows_nobody(school: School) -> None:
    school.recipients.write_bytes(GOOD_LINE * 2)
    done = school.plan()
    assert done.code == 2
    assert "found no column" in done.err
    assert "home.test" not in done.err
    assert "Ann" not in done.err


def test_rejects_never_replace_another_file(school: School) -> None:
    school.write_rows([pupil(1), pupil(2, grade="")])
    before = school.recipients.read_bytes()
    done = school.plan("--rejects", str(school.recipients))
    assert done.code == 2
    assert "choose another with --rejects" in done.err
    assert school.recipients.read_bytes() == before
    assert school.counts() == NOTHING


def test_nothing_is_planned_when_the_rejects_cannot_be_written(school: School) -> None:
    school.write_rows([pupil(1), pupil(2, grade="")])
    done = school.plan("--rejects", str(school.folder / "missing" / "rejects.csv"))
    assert done.code == 2
    assert "the rejects cannot be written" in done.err
    assert school.counts() == NOTHING


def test_a_batch_of_which_no_row_can_be_planned_leaves_its_label_free(school: School) -> None:
    school.write_rows([pupil(1, grade=""), pupil(2, grade="")])
    done = school.plan()
    assert (done.code, len(school.rejected())) == (1, 2)
    assert school.counts() == NOTHING
    school.write_batch(("the grade is", "The grade is"))
    school.write_rows([pupil(1), pupil(2)])
    assert school.plan().code == 0


def test_a_subject_of_two_lines_is_a_fault_of_the_batch(school: School) -> None:
    school.write_batch(("subject: Report for {{name}}", "subject: |\n    Report\n    for {{name}}"))
    school.write_rows([pupil(1), pupil(2)])
    done = school.plan()
    assert done.code == 2
    assert "content (line 8): the subject holds a line break" in done.err
    assert school.counts() == NOTHING
    assert not school.rejects.exists()
