"""Attachments are planned by their digest: from columns, below the roots, each row for itself."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import psycopg
import pytest

from plan_kit import NOTHING, SETTINGS, School, pupil
from sendledger.cli import main
from sendledger.planning import (
    AttachmentSource,
    Authorization,
    Batch,
    BatchFault,
    Planned,
    Planner,
    Recipient,
)
from stores import ROOT, ShakyStore

ATTACHED = """\
attachments:
  - url: {root}/{{{{student_id}}}}.pdf
    name: "{{{{name}}}}.pdf"
    media_type: application/pdf
"""
SHARED = """\
  - url: {root}/terms.txt
    name: Terms.txt
    media_type: text/plain; charset=utf-8
"""


def content(number: int) -> bytes:
    return b"%PDF-1.7 " + str(number).encode() * 50


def digest(found: bytes) -> str:
    return hashlib.sha256(found).hexdigest()


@pytest.fixture
def reports(school: School) -> Path:
    """Make a folder of reports, which the settings allow and the batch names."""
    folder = school.folder / "reports"
    folder.mkdir()
    for number in range(1, 6):
        (folder / f"s{number}.pdf").write_bytes(content(number))
    (folder / "terms.txt").write_bytes(b"terms")
    write_settings(school, "reports")
    school.write_batch(more=ATTACHED.format(root=f"file://{folder}"))
    school.write_rows([pupil(number) for number in range(1, 6)])
    return folder


@pytest.fixture
def shaky(school: School) -> Iterator[type[ShakyStore]]:
    """Let the reports lie in a store that can be taken away."""
    ShakyStore.restock({f"{ROOT}/s{number}.pdf": content(number) for number in range(1, 6)})
    write_settings(school, ROOT)
    school.write_batch(more=ATTACHED.format(root=ROOT))
    school.write_rows([pupil(number) for number in range(1, 6)])
    yield ShakyStore
    ShakyStore.restock({})


def write_settings(school: School, root: str) -> None:
    text = f"{SETTINGS}attachments: {{roots: [{root}], max_bytes: 1kB}}\n"
    (school.folder / "sendledger.yaml").write_text(text)


def test_the_intent_holds_what_each_file_is_and_the_side_row_where_it_lies(
    school: School, reports: Path
) -> None:
    with (school.folder / "batch.yaml").open("a") as batch:
        batch.write(SHARED.format(root=f"file://{reports}"))
    assert school.plan().code == 0
    rows = school.select(
        "SELECT s.recipient_id, i.attachments, s.attachments, s.variables FROM sendledger.intent AS i"
        " JOIN sendledger.recipient_secret AS s USING (intent_id) ORDER BY s.recipient_id"
    )
    assert rows[1] == (
        "s2",
        [
            {
                "sha256": digest(content(2)),
                "media_type": "application/pdf",
                "bytes": len(content(2)),
            },
            {"sha256": digest(b"terms"), "media_type": "text/plain; charset=utf-8", "bytes": 5},
        ],
        [
            {"url": f"file://{reports}/s2.pdf", "name": "Child 2.pdf"},
            {"url": f"file://{reports}/terms.txt", "name": "Terms.txt"},
        ],
        {"grade": "B", "name": "Child 2"},
    )
    assert len({row[1][0]["sha256"] for row in rows}) == 5


def test_nothing_is_stored_of_attachments_where_there_are_none(school: School) -> None:
    school.write_rows([pupil(1)])
    assert school.plan().code == 0
    assert school.select(
        "SELECT i.attachments, s.attachments FROM sendledger.intent AS i"
        " JOIN sendledger.recipient_secret AS s USING (intent_id)"
    ) == [(None, None)]


def test_a_file_that_cannot_go_rejects_its_own_row(school: School, reports: Path) -> None:
    (reports / "s2.pdf").unlink()
    (reports / "s3.pdf").write_bytes(bytes(1001))
    (reports / "s4.pdf").unlink()
    (reports / "s4.pdf").mkdir()
    rows = [pupil(number) for number in range(1, 6)]
    rows.append(pupil(6, student_id="../batch"))
    rows.append(pupil(7, student_id=" "))
    school.write_rows(rows)
    done = school.plan()
    assert done.code == 1
    assert school.counts()[2] == 2
    assert [(line, column, reason) for line, column, reason, _ in school.rejected()] == [
        ("3", "student_id", "there is no such file"),
        ("4", "student_id", "the file is larger than 1000 bytes"),
        ("5", "student_id", "there is no plain file"),
        ("7", "student_id", "the URL leads through . or .. or holds what no URL may"),
        ("8", "student_id", "a value of the file's url is empty"),
    ]
    assert str(reports) not in school.rejects.read_text()


def test_rows_keep_their_order_however_long_their_files_take(school: School, reports: Path) -> None:
    for number in range(6, 60):
        (reports / f"s{number}.pdf").write_bytes(content(number))
    rows = [pupil(number) for number in range(1, 60)]
    rows[20] = pupil(21, guardian_email="nobody")
    rows[40][0] = "nobody"
    school.write_rows(rows)
    assert school.plan().code == 1
    assert [line for line, *_ in school.rejected()] == ["22", "42"]
    planned = school.select(
        "SELECT recipient_id FROM sendledger.recipient_secret ORDER BY intent_id"
    )
    assert [row[0] for row in planned] == [
        f"s{number}" for number in range(1, 60) if number not in {21, 41}
    ]


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (
            "https://files.example/{{student_id}}.pdf",
            "line 2: the URL of an attachment has a scheme",
        ),
        ("reports/{{student_id}}.pdf", "the roots have file"),
        ("file://REPORTS/none.pdf", "attachment 1: there is no such file; put it there"),
        ("file:///etc/passwd", "attachment 1: the file lies outside of the configured roots"),
        ("file://REPORTS/{{student_id", "attachment 1, url: the tag is not closed"),
        ("file://REPORTS/{{student.id}}.pdf", "looks inside of a value"),
    ],
)
def test_what_is_wrong_for_everybody_plans_nobody(
    school: School, reports: Path, url: str, sentence: str
) -> None:
    found = f"file://{reports}/{{{{student_id}}}}.pdf"
    put = url.replace("REPORTS", str(reports))
    path = school.folder / "batch.yaml"
    path.write_text(path.read_text().replace(f"url: {found}", f"url: '{put}'"))
    done = school.plan()
    assert (done.code, school.counts()) == (2, NOTHING)
    assert "batch.yaml: attachments (line " in done.err
    assert sentence in done.err


@pytest.mark.usefixtures("reports")
def test_without_a_root_nothing_can_be_attached(school: School) -> None:
    (school.folder / "sendledger.yaml").write_text(SETTINGS)
    done = school.plan()
    assert done.code == 2
    assert "no place is configured; name a folder in attachments.roots" in done.err


@pytest.mark.usefixtures("reports")
@pytest.mark.parametrize("media_type", ["pdf", "multipart/mixed", "message/rfc822", "a/b\\nX: 1"])
def test_a_media_type_that_is_none_of_a_file_is_refused(school: School, media_type: str) -> None:
    path = school.folder / "batch.yaml"
    path.write_text(path.read_text().replace("application/pdf", f'"{media_type}"'))
    done = school.plan()
    assert done.code == 2
    assert "expected type and subtype of one file in lower case, such as image/png" in done.err


@pytest.mark.usefixtures("reports")
def test_a_missing_column_of_a_url_is_told_before_a_row_is_read(school: School) -> None:
    path = school.folder / "batch.yaml"
    path.write_text(path.read_text().replace("{{student_id}}.pdf", "{{student}}.pdf"))
    done = school.plan()
    assert done.code == 2
    assert 'found no column "student"; did you mean "student_id"?' in done.err


def test_a_column_with_the_digest_spares_the_reading(
    school: School, shaky: type[ShakyStore]
) -> None:
    with (school.folder / "batch.yaml").open("a") as batch:
        batch.write('    sha256: "{{grade}}"\n')
    known = digest(content(1)).upper()
    school.write_rows([pupil(1, grade=known), pupil(2, grade="B")])
    assert school.plan().code == 1
    assert [row[1:3] for row in school.rejected()] == [
        ["grade", "the digest is no SHA-256 in hexadecimal"]
    ]
    assert school.select("SELECT attachments FROM sendledger.intent") == [
        ([{"sha256": known.lower(), "media_type": "application/pdf", "bytes": None}],)
    ]
    assert not shaky.opened


def test_a_file_is_read_once_for_all_who_get_it(school: School, shaky: type[ShakyStore]) -> None:
    shaky.restock({f"{ROOT}/B.pdf": b"for all", f"{ROOT}/all.pdf": b"for all"})
    school.write_batch(
        more=ATTACHED.format(root=ROOT).replace("student_id", "grade")
        + SHARED.format(root=ROOT).replace("terms.txt", "all.pdf")
    )
    school.write_rows([pupil(number) for number in range(1, 100)])
    assert school.plan().code == 0
    # Those who are read together may each have read it.
    assert shaky.opened["reports/all.pdf"] == 1
    assert shaky.opened["reports/B.pdf"] <= 16


def test_a_store_that_is_away_plans_nobody(school: School, shaky: type[ShakyStore]) -> None:
    shaky.fault = ConnectionRefusedError("10.0.0.1 hunter2")
    done = school.plan()
    assert (done.code, school.counts()) == (2, NOTHING)
    assert "the store of the files does not answer (ConnectionRefusedError)" in done.err
    assert "hunter2" not in done.err
    shaky.fault = None
    assert school.plan().code == 0


def test_a_file_that_may_not_be_read_rejects_its_own_row(
    school: School, shaky: type[ShakyStore]
) -> None:
    shaky.fault = PermissionError("s1.pdf")
    done = school.plan()
    assert done.code == 1
    assert {row[2] for row in school.rejected()} == {"the file may not be read"}


def test_another_file_under_the_same_label_is_a_conflict(school: School, reports: Path) -> None:
    assert school.plan().code == 0
    assert school.plan().out.startswith("planned 0, already planned 5")
    (reports / "s3.pdf").write_bytes(b"corrected")
    done = school.plan()
    assert done.code == 2
    assert "it differs in attachments (line 4): plan what" in done.err


def test_another_name_is_a_conflict_and_another_place_is_none(
    school: School, reports: Path
) -> None:
    assert school.plan().code == 0
    (reports / "new").mkdir()
    for number in range(1, 6):
        (reports / f"s{number}.pdf").rename(reports / f"new/s{number}.pdf")
    path = school.folder / "batch.yaml"
    path.write_text(path.read_text().replace(f"{reports}/", f"{reports}/new/"))
    assert school.plan().out.startswith("planned 0, already planned 5")
    path.write_text(path.read_text().replace("{{name}}.pdf", "Report.pdf"))
    done = school.plan()
    assert done.code == 2
    assert "it differs in attachments (lines 2, 3, 4, 5, 6)" in done.err


@pytest.mark.usefixtures("reports")
def test_two_rows_of_one_recipient_with_other_files_are_a_conflict(school: School) -> None:
    path = school.folder / "batch.yaml"
    path.write_text(path.read_text().replace("{{student_id}}.pdf", "{{report}}.pdf"))
    lines = ["student_id,first_name,guardian_email,grade,report"]
    lines += ["s1,Sam,pat@home.test,B,s1", "s1,Sam,pat@home.test,B,s2"]
    school.recipients.write_text("\n".join(lines))
    done = school.plan()
    assert done.code == 2
    assert "it differs in attachments (line 3)" in done.err


@pytest.mark.usefixtures("reports")
def test_a_preview_holds_the_very_files(school: School) -> None:
    folder = school.folder / "preview"
    assert school.plan("--preview", "2", "--preview-dir", str(folder)).code == 0
    message = message_from_bytes((folder / "line-000003.eml").read_bytes(), policy=policy.default)
    assert isinstance(message, EmailMessage)
    [file] = message.iter_attachments()
    assert (file.get_filename(), file.get_payload(decode=True)) == ("Child 2.pdf", content(2))
    assert school.counts() == NOTHING


def test_the_api_attaches_as_the_command_does(school: School, reports: Path) -> None:
    planner = Planner.load(school.folder / "sendledger.yaml")
    batch = Batch(
        report="spring-reports",
        content_revision="1",
        channel="email",
        purpose="school-reports",
        authorization=Authorization(id="A", by="head", at=datetime(2026, 3, 2, 9, tzinfo=UTC)),
        parts={"subject": "Report", "text": "Here it is."},
        attachments=(
            AttachmentSource(
                url=f"file://{reports}/{{{{id}}}}.pdf",
                name="Report.pdf",
                media_type="application/pdf",
            ),
        ),
    )
    people = [
        Recipient(id=one, destination=f"{one}@home.test", variables={"id": one})
        for one in ("s1", "none", "s2")
    ]

    async def plan(batch: Batch) -> Planned:
        async with await psycopg.AsyncConnection.connect(school.dsn) as connection:
            return await planner.plan(connection, batch, people)

    planned = asyncio.run(plan(batch))
    assert (planned.added, [(r.line, r.field) for r in planned.rejects]) == (
        2,
        [(2, "variables.id")],
    )
    bad = replace(batch.attachments[0], media_type="pdf")
    with pytest.raises(BatchFault, match="attachment 1, media_type"):
        asyncio.run(plan(replace(batch, attachments=(bad,))))


def explained(school: School, *arguments: str) -> str:
    with pytest.raises(SystemExit):
        main(["explain", *arguments, "-c", str(school.folder / "sendledger.yaml")])
    return school.capsys.readouterr().out


@pytest.mark.parametrize("option", [(), ("--who",)])
def test_explain_shows_digest_type_and_size_and_the_name_to_who_asks(
    school: School, reports: Path, option: tuple[str, ...]
) -> None:
    school.write_rows([pupil(1)])
    assert school.plan().code == 0
    [(key,)] = school.select("SELECT encode(intent_key, 'hex') FROM sendledger.intent")
    told = explained(school, key, *option)
    facts = {
        "sha256": digest(content(1)),
        "media_type": "application/pdf",
        "bytes": len(content(1)),
    }
    size = f"application/pdf, {len(content(1))} bytes, sha256 {digest(content(1))}"
    assert f"attachment {'Child 1.pdf, ' if option else ''}{size}" in told
    shown = json.loads(explained(school, key, "--json", *option))["attachments"]
    assert shown == [facts | ({"name": "Child 1.pdf"} if option else {})]
    assert str(reports) not in told
