"""Something else under the same label is a conflict: it names fields and rows, and plans nobody."""

from __future__ import annotations

import pytest

from plan_kit import NOTHING, School, pupil


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
    assert "or stands in an earlier row; it differs in variables.grade (line 4): " in done.err
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


def test_another_sender_under_the_same_label_is_a_conflict(school: School) -> None:
    school.write_rows([pupil(1)])
    assert school.plan().code == 0
    settings = school.folder / "sendledger.yaml"
    settings.write_text(settings.read_text().replace("reports@", "office@"))
    school.write_rows([pupil(1), pupil(2)])

    done = school.plan()

    assert done.code == 2
    assert "differs in the sender of the channel: " in done.err
    assert "school.example" not in done.err
    assert school.counts()[2] == 1
