"""The plan command: who is planned, who is not and why, and that a fault of the batch plans nobody."""

from __future__ import annotations

import csv
import json
import stat
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from plan_kit import NOTHING, School, found_school, pupil


@pytest.fixture
def school(
    tmp_path: Path,
    database: str,
    installation_id: UUID,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> School:
    monkeypatch.setenv("PLAN_TEST_DSN", database)
    return found_school(tmp_path, database, installation_id, capsys)


def rejected(school: School) -> list[list[str]]:
    with school.rejects.open(newline="") as file:
        return list(csv.reader(file))[1:]


def test_one_bad_row_of_240_holds_nobody_else(school: School) -> None:
    rows = [pupil(number) for number in range(1, 241)]
    rows[16] = pupil(17, guardian_email="not an address")
    school.write_rows(rows)

    done = school.plan()

    assert (done.code, done.err) == (1, "")
    assert done.out == f"planned 239, already planned 0, rejected 1 (see {school.rejects})\n"
    assert school.counts() == (1, 1, 239, 239, 239)
    ((line, column, reason, remedy),) = rejected(school)
    assert (line, column, reason) == ("18", "guardian_email", "invalid_address")
    assert "write one plain address" in remedy
    assert "not an address" not in school.rejects.read_text()
    assert stat.S_IMODE(school.rejects.stat().st_mode) == 0o600


def test_the_ledger_holds_who_allowed_it_and_everything_that_can_pause_it(school: School) -> None:
    school.write_rows([pupil(1)])
    assert school.plan().code == 0
    ((*header, scopes),) = school.select(
        "SELECT report, channel, content_revision, purpose, lane, authorization_id, authorized_by,"
        " authorized_at::text, scope_keys FROM sendledger.batch"
    )
    assert header[:7] == [
        *("spring-reports", "email", "2026-spring-1", "school-reports", 1),
        *("AUTH-2026-014", "head of school"),
    ]
    assert header[7].startswith("2026-03-02 09:00:00")
    assert scopes == [
        "all",
        "channel:email",
        "sender:email/reports@school.example",
        "purpose:school-reports",
        "batch:spring-reports/2026-spring-1/email",
    ]


def test_only_what_the_content_needs_is_kept_of_a_person(school: School) -> None:
    school.write_batch(("grade: grade", "grade: grade, other: guardian_email"))
    school.write_rows([pupil(1)])
    assert school.plan().code == 0
    assert school.select(
        "SELECT recipient_id, destination, variables FROM sendledger.recipient_secret"
    ) == [("s1", "p1@home.test", {"grade": "B", "name": "Child 1"})]


def test_planning_again_adds_nothing(school: School) -> None:
    school.write_rows([pupil(1), pupil(2), pupil(3, guardian_email="nobody")])
    school.plan()
    before = school.counts()

    done = school.plan("--json")

    assert school.counts() == before
    assert done.code == 1
    assert json.loads(done.out) == {
        "batch": "spring-reports/2026-spring-1/email",
        "planned": 0,
        "known": 2,
        "repeated": 0,
        "rejected": 1,
        "rejects_file": str(school.rejects),
        "dry_run": False,
    }


def test_a_mended_row_is_added_and_the_earlier_rejects_go_away(school: School) -> None:
    school.write_rows([pupil(1), pupil(2, grade="")])
    assert school.plan().code == 1
    school.write_rows([pupil(1), pupil(2)])

    done = school.plan()

    assert (done.code, done.out) == (0, "planned 1, already planned 1, rejected 0\n")
    assert not school.rejects.exists()


def test_a_recipient_repeated_with_the_same_values_is_planned_once(school: School) -> None:
    school.write_rows([pupil(1), pupil(2), pupil(1)])
    done = school.plan()
    assert (done.code, done.out) == (
        0,
        "planned 2, already planned 0, repeated in the file 1, rejected 0\n",
    )


def test_a_dry_run_tells_everything_and_keeps_nothing(school: School) -> None:
    school.write_rows([pupil(1), pupil(2, guardian_email="nobody")])
    done = school.plan("--dry-run")
    assert done.code == 1
    assert done.out.startswith("planned 1, already planned 0, rejected 1")
    assert done.out.endswith("dry run, nothing was kept\n")
    assert len(rejected(school)) == 1
    assert school.counts() == NOTHING


@pytest.mark.parametrize(
    ("row", "column", "reason"),
    [
        (pupil(1, guardian_email=""), "guardian_email", "the destination is empty"),
        (pupil(1, guardian_email="a@b.test, c@d.test"), "guardian_email", "invalid_address"),
        (pupil(1, first_name=" "), "first_name", "the value is empty"),
        (pupil(1, grade=""), "grade", "the value is empty"),
        (pupil(1, student_id=" "), "student_id", "the recipient id is empty"),
        (pupil(1, student_id="a\tb"), "student_id", "the recipient id holds a control character"),
        (pupil(1, grade="B\0"), "grade", "the value holds a NUL character"),
        (pupil(1, guardian_email="a\0@b.test"), "guardian_email", "holds a NUL character"),
        (pupil(1, first_name="Ann\r\nBcc: spy@evil.example"), "first_name", "line break"),
        (pupil(1)[:3], "", "the row has 3 values, the header 4"),
        ([*pupil(1), "more"], "", "the row has 5 values, the header 4"),
    ],
)
def test_a_bad_row_is_told_by_line_column_and_reason(
    school: School, row: list[str], column: str, reason: str
) -> None:
    school.write_rows([pupil(7), row, pupil(8)])
    done = school.plan()
    assert done.code == 1
    assert done.out.startswith("planned 2,")
    ((line, found_column, found_reason, remedy),) = rejected(school)
    assert (line, found_column) == ("3", column)
    assert reason in found_reason
    assert remedy
    assert "spy@" not in school.rejects.read_text()


def test_lines_are_counted_as_an_editor_does(school: School) -> None:
    two_lines = pupil(1, grade="B,\nbut better")
    school.write_rows([two_lines, [], pupil(2, guardian_email="nobody")])
    assert school.plan().code == 1
    assert [row[0] for row in rejected(school)] == ["5"]


def test_a_section_shows_what_is_there_and_needs_nothing_that_is_not(school: School) -> None:
    school.write_batch(
        ("the grade is {{grade}}", "{{#grade}}{{name}}: {{grade}}{{/grade}}"),
        ("<p>{{name}} has {{grade}}</p>", "<p>{{name}}</p>"),
    )
    school.write_rows([pupil(1, grade="")])
    assert school.plan().code == 0
    assert school.select("SELECT variables FROM sendledger.recipient_secret") == [
        ({"grade": None, "name": "Child 1"},)
    ]


def test_variables_are_read_from_the_columns_of_their_own_names_by_default(school: School) -> None:
    school.write_batch(("variables: {name: first_name, grade: grade}\n", ""))
    rows = [
        ("student_id", "guardian_email", "name", "grade", ""),
        ("1", "p@home.test", "A", "B", ""),
    ]
    school.recipients.write_text("\ufeff" + "".join(f"{','.join(row)}\r\n" for row in rows))
    assert school.plan().code == 0
    assert school.select("SELECT variables ->> 'name' FROM sendledger.recipient_secret") == [("A",)]


def test_one_address_is_one_destination_on_every_channel(school: School) -> None:
    with (school.folder / "sendledger.yaml").open("a") as file:
        file.write(
            "  second:\n    plugin: smtp\n    settings: {host: 127.0.0.1, tls: none, sender: a@b.test}\n"
        )
    school.write_rows([pupil(1)])
    assert school.plan().code == 0
    school.write_batch(("channel: email", "channel: second"))
    assert school.plan().code == 0
    assert school.select(
        "SELECT count(*), count(DISTINCT intent_key), count(DISTINCT destination_fingerprint),"
        " count(DISTINCT recipient_fingerprint) FROM sendledger.intent"
    ) == [(2, 2, 1, 1)]


# --- conflicts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "put", "field"),
    [
        ("school-reports", "newsletter", "purpose"),
        ("purpose:", "lane: transactional\npurpose:", "lane"),
        ("AUTH-2026-014", "AUTH-2026-015", "authorization.id"),
        ("head of school", "deputy head", "authorization.by"),
        ("T09:00:00", "T09:00:01", "authorization.at"),
        ("the grade is", "The grade is", "content.text"),
        ("Report for", "Your report for", "content.subject"),
        ("  html:", "  settings: {from_name: Office}\n  html:", "content.settings.from_name"),
    ],
)
def test_another_header_under_the_same_label_is_a_conflict(
    school: School, found: str, put: str, field: str
) -> None:
    school.write_rows([pupil(1)])
    school.plan()
    before = school.counts()
    school.write_batch((found, put))
    school.write_rows([pupil(1), pupil(2)])

    done = school.plan()

    assert done.code == 2
    assert f"differs in {field}: " in done.err
    assert "choose a new content_revision" in done.err
    assert school.counts() == before


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        (pupil(2, guardian_email="other@home.test"), "recipients.destination (line 4)"),
        (pupil(2, first_name="Somebody"), "variables.name (line 4)"),
        (
            pupil(2, first_name="Somebody", grade="C"),
            "variables.grade (line 4), variables.name (line 4)",
        ),
    ],
)
def test_another_row_under_the_same_key_is_a_conflict(
    school: School, row: list[str], fields: str
) -> None:
    school.write_rows([pupil(1), pupil(2)])
    school.plan()
    before = school.counts()
    school.write_rows([pupil(3), pupil(1), row, pupil(4, guardian_email="nobody")])

    done = school.plan()

    assert done.code == 2
    assert f"differs in {fields}: " in done.err
    assert not {"Somebody", "other@home.test"} & set(done.err.split())
    assert school.counts() == before
    assert not school.rejects.exists()


@pytest.mark.parametrize("field", ["not_before", "not_after"])
@pytest.mark.parametrize("first", [True, False])
def test_another_time_is_a_conflict_wherever_it_was_given(
    school: School, field: str, first: bool
) -> None:
    school.write_rows([pupil(1), pupil(2)])
    timed = f"{field}: 2999-01-01T00:00:00Z\n"
    school.write_batch(more=timed if first else "")
    assert school.plan().code == 0
    school.write_batch(more="" if first else timed)

    done = school.plan()

    assert done.code == 2
    assert f"differs in {field} (lines 2, 3): " in done.err


def test_a_recipient_given_twice_with_different_values_is_a_conflict(school: School) -> None:
    school.write_rows([pupil(1), pupil(2), pupil(1, grade="A")])
    done = school.plan()
    assert done.code == 2
    assert "differs in variables.grade (line 4): " in done.err
    assert school.counts() == NOTHING


def test_a_conflict_of_many_rows_names_the_first_and_counts_the_rest(school: School) -> None:
    school.write_rows([pupil(number) for number in range(30)])
    school.plan()
    school.write_rows([pupil(number, grade="C") for number in range(30)])
    assert "21 and 10 more)" in school.plan().err


def test_the_same_again_is_known_with_times_settings_and_composed_letters(school: School) -> None:
    school.write_batch(
        ("spring-reports", "re\u0301ports"),
        ("  html:", "  settings: {reply_to: office@school.example}\n  html:"),
        more="not_before: 2026-04-01T10:00:00+02:00\nnot_after: 2999-04-01T08:00:00Z\n",
    )
    school.write_rows([pupil(1, student_id="Rene\u0301")])
    assert school.plan().code == 0
    school.write_batch(
        ("spring-reports", "r\u00e9ports"),
        ("  html:", "  settings: {reply_to: office@school.example}\n  html:"),
        more="not_before: 2026-04-01T08:00:00Z\nnot_after: 2999-04-01T10:00:00+02:00\n",
    )
    school.write_rows([pupil(1, student_id="Ren\u00e9")])
    assert school.plan().out == "planned 0, already planned 1, rejected 0\n"


# --- faults of the batch ---------------------------------------------------------------------


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
        ("of {{name}},", "of {{{name}}},", "content.text (line 10): line 1, column 17 of the text"),
        ("of {{name}},", "of {{&name}},", "leave out the &: {{name}}"),
        ("of {{name}},", "of {{nick}},", "variables (line 7): the content uses nick"),
        ("of {{name}},", "of {{name.first}},", "looks inside of a value"),
        ("first_name", "forename", 'spring.csv line 1: found no column "forename"'),
        ("first_name", "firstname", 'did you mean "first_name"?'),
        ("guardian_email", "address", 'found no column "address"'),
        ("  subject: Report for {{name}}\n", "", "content.subject (line 8): the part is missing"),
        ("  html:", "  sms:", "content.sms (line 13): the channel has no such part"),
        ("  html:", "  settings: {from: a@b.test}\n  html:", "found from; email knows from_name"),
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
        (write(HEADER_LINE + GOOD_LINE + b's2,"Bo,p2@home.test,B\n'), "line 3: not valid CSV"),
        (write(HEADER_LINE + GOOD_LINE + b's2,"B"o,p2@home.test,B\n'), "line 3: not valid CSV"),
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
    school.write_batch(("subject: Report for {{name}}", "subject: |\n    Report\n    for {{name}}"))
    school.write_rows([pupil(1), pupil(2)])
    done = school.plan()
    assert (done.code, len(rejected(school))) == (1, 2)
    assert school.counts() == NOTHING
    school.write_batch()
    assert school.plan().code == 0
