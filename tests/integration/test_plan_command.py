"""The plan command: who is planned, who is not and why, and what the ledger holds of it."""

from __future__ import annotations

import json
import stat

import pytest

from plan_kit import NOTHING, School, pupil


def test_one_bad_row_of_240_holds_nobody_else(school: School) -> None:
    rows = [pupil(number) for number in range(1, 241)]
    rows[16] = pupil(17, guardian_email="not an address")
    school.write_rows(rows)

    done = school.plan()

    assert (done.code, done.err) == (1, "")
    assert done.out == f"planned 239, already planned 0, rejected 1 (see {school.rejects})\n"
    assert school.counts() == (1, 1, 239, 239, 239)
    ((line, column, reason, remedy),) = school.rejected()
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
    assert len(school.rejected()) == 1
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
    ((line, found_column, found_reason, remedy),) = school.rejected()
    assert (line, found_column) == ("3", column)
    assert reason in found_reason
    assert remedy
    assert "spy@" not in school.rejects.read_text()


def test_what_to_do_about_a_row_is_told_once(school: School) -> None:
    school.write_rows([pupil(1, first_name="Ann\nLee")])
    school.plan()
    ((_, _, reason, remedy),) = school.rejected()
    assert reason == "the subject holds a line break or control character"
    assert remedy == "take it out"


def test_lines_are_counted_as_an_editor_does(school: School) -> None:
    two_lines = pupil(1, grade="B,\nbut better")
    school.write_rows([two_lines, [], pupil(2, guardian_email="nobody")])
    assert school.plan().code == 1
    assert [row[0] for row in school.rejected()] == ["5"]


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
