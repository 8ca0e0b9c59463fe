"""The batch file: what it says, and that whatever is wrong with it has a line and a remedy."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from plan_kit import BATCH
from sendledger.settings.batch import BatchFile, load_batch
from sendledger.settings.problems import SettingsError


def load(folder: Path, *changes: tuple[str, str], more: str = "") -> BatchFile:
    text = BATCH
    for found, put in changes:
        assert found in text
        text = text.replace(found, put)
    file = folder / "batch.yaml"
    file.write_text(text + more)
    return load_batch(file)


def test_everything_is_read_as_text_and_times_in_utc(tmp_path: Path) -> None:
    changes = [("2026-spring-1", "2026"), ("T09:00:00+00:00", "T11:00:00+02:00")]
    read = load(tmp_path, *changes, more="not_before: 2026-03-03T00:00:00Z\n").settings
    assert (read.report, read.content_revision, read.channel) == ("spring-reports", "2026", "email")
    assert (read.lane, read.purpose) == ("bulk", "school-reports")
    assert read.authorization.id == "AUTH-2026-014"
    assert read.authorization.at == datetime(2026, 3, 2, 9, tzinfo=UTC)
    assert read.not_before == datetime(2026, 3, 3, tzinfo=UTC)
    assert read.not_after is None
    assert (read.recipients.id, read.recipients.destination) == ("student_id", "guardian_email")
    assert read.variables == {"name": "first_name", "grade": "grade"}
    assert set(read.content.parts) == {"subject", "text", "html"}
    assert read.content.settings == {}


def test_parts_come_from_files_beside_the_batch_with_one_kind_of_line_end(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/subject.txt").write_bytes(b"Report for {{name}}\r\n")
    (tmp_path / "report.html").write_bytes(b"\xef\xbb\xbf<p>\r\n{{grade}}</p>\r\n")
    read = load(
        tmp_path,
        ("Report for {{name}}", "{$file: parts/subject.txt}"),
        ("<p>{{name}} has {{grade}}</p>", "{$file: report.html}"),
    ).settings.content
    assert read.parts["subject"] == "Report for {{name}}"
    assert read.parts["html"] == "<p>\n{{grade}}</p>\n"
    assert read.parts["text"].endswith("{{grade}}.\n")


@pytest.mark.parametrize(
    ("found", "put", "sentence"),
    [
        ("report: ", "reports: ", "reports (line 1): unknown key; did you mean report?"),
        ("by: head of school, ", "", "authorization.by (line 5): is required"),
        ("head of school", "''", "authorization.by (line 5): the text is empty"),
        (
            "head of school",
            '"a\\tb"',
            "authorization.by (line 5): the text holds a control character",
        ),
        ("school-reports", "x" * 201, "purpose (line 4): expected at most 200 characters"),
        ("+00:00", "", "authorization.at (line 5): expected an instant with its zone"),
        (
            "2026-03-02T09:00:00+00:00",
            "0001-01-01T00:00+10:00",
            "expected an instant with its zone",
        ),
        ("2026-03-02T09:00:00+00:00", "yesterday", "expected an instant with its zone"),
        ("channel: email", "channel: E-Mail", "channel (line 3): expected a name"),
        ("purpose:", "lane: slow\npurpose:", "lane (line 4): expected bulk or transactional"),
        (
            "purpose:",
            "not_before: 2026-01-02\npurpose:",
            "not_before (line 4): expected an instant",
        ),
        ("{id: student_id, ", "{", "recipients.id (line 6): is required"),
        ("{name: first_name, grade: grade}", "[name]", "variables (line 7): expected a block"),
        ("Report for {{name}}", "[a]", "content.subject (line 9): expected a text"),
        ("Report for {{name}}", "{$file: no.txt}", "no.txt: there is no such file"),
        ("Report for {{name}}", "{$file: '.'}", ".: this is a folder"),
        ("Report for {{name}}", "{$env: NAME}", "content.subject (line 9): this is no secret"),
        ("school-reports", "{$file: no.txt}", "purpose (line 4): this is no secret"),
        ("  html:", "  settings: text\n  html:", "content.settings (line 13): expected a block"),
        ("purpose:", "purpose: x\npurpose:", "purpose (line 5): given twice, first on line 4"),
    ],
)
def test_a_fault_is_told_with_place_and_remedy(
    tmp_path: Path, found: str, put: str, sentence: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, (found, put))
    assert sentence in str(caught.value)
    assert str(tmp_path / "batch.yaml") in str(caught.value)


def test_every_fault_is_told_at_once_and_no_value_with_any(tmp_path: Path) -> None:
    changes = [
        ("+00:00", " noon"),
        ("Report for {{name}}", "{$file: no.txt}"),
        ("email\np", "E\np"),
    ]
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, *changes)
    assert len(caught.value.problems) == 3
    assert "noon" not in str(caught.value)


def test_a_window_that_never_opens_is_refused(tmp_path: Path) -> None:
    times = "not_before: 2026-03-03T00:00:00Z\nnot_after: 2026-03-03T00:00:00Z\n"
    with pytest.raises(
        SettingsError, match=r": not_after \(line \d+\): must be later than not_before"
    ):
        load(tmp_path, more=times)


def test_a_fault_found_later_still_has_its_line(tmp_path: Path) -> None:
    fault = load(tmp_path).fault(("content", "text"), "is too long; shorten it")
    assert fault.problems == ["content.text (line 10): is too long; shorten it"]
