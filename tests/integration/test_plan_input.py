"""Recipients from standard input, as they come; and messages to look at before anything is planned."""

from __future__ import annotations

import email
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from email import policy
from pathlib import Path

import pytest

from embedded_process import until
from plan_kit import HEADER, NOTHING, School, pupil

HALF_WAY = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND state = 'idle in transaction'
    AND backend_xid IS NOT NULL AND query LIKE '%COPY sendledger.delivery %'
"""


def csv_of(*numbers: int, **changes: str) -> bytes:
    rows = [HEADER, *(pupil(number, **changes) for number in numbers)]
    return "".join(f"{','.join(row)}\n" for row in rows).encode()


@contextmanager
def piped(school: School, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    arguments = school.arguments(*options, recipients=Path("-"))
    with subprocess.Popen(
        [sys.executable, "-m", "sendledger", *arguments],
        cwd=school.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def plan(school: School, content: bytes, *options: str) -> tuple[int, str, str]:
    with piped(school, *options) as process:
        out, err = process.communicate(content, timeout=60)
        return process.returncode, out.decode(), err.decode()


def test_standard_input_is_planned_and_its_rejects_go_to_the_working_directory(
    school: School,
) -> None:
    code, out, _ = plan(school, csv_of(1, 2) + b"s3,Bo,nobody,B\n")
    assert (code, out) == (
        1,
        "planned 2, already planned 0, rejected 1 (see recipients.rejects.csv)\n",
    )
    assert (school.folder / "recipients.rejects.csv").read_text().count("\n") == 2
    assert school.counts()[2] == 2


def test_standard_input_may_be_lines_of_json(school: School) -> None:
    content = (
        b'{"student_id": 1, "first_name": "A", "guardian_email": "p@home.test", "grade": "B"}\n'
    )
    assert plan(school, content, "--format", "jsonl")[0] == 0
    assert school.counts()[2] == 1


def test_a_fault_of_standard_input_is_told_by_its_name(school: School) -> None:
    code, _, err = plan(school, b"a,b\n")
    assert code == 2
    assert err.startswith("sendledger: standard input line 1: found no column")


def test_what_has_come_is_stored_while_the_rest_is_still_to_come(school: School) -> None:
    """A chunk reaches the database though the pipe is silent; an interrupt then ends it at once."""
    with piped(school) as process:
        assert process.stdin is not None
        process.stdin.write(csv_of(*range(5_001)))
        process.stdin.flush()
        until(lambda: school.select(HALF_WAY)[0][0] == 1)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) != 0
    assert school.counts() == NOTHING


def test_a_preview_shows_the_first_messages_and_plans_nothing(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(school.folder)
    monkeypatch.setenv("PLAN_TEST_DSN", "postgresql://nobody@127.0.0.1:9/none")
    school.write_rows([pupil(1), pupil(2, guardian_email="nobody"), pupil(3, grade="A<"), pupil(4)])

    done = school.plan("--preview", "2")

    assert (done.code, done.out) == (1, "wrote 2 to preview, rejected 1; nothing was planned\n")
    assert done.err.startswith(
        "sendledger: line 3 guardian_email: invalid_address; write one plain"
    )
    folder = school.folder / "preview"
    assert sorted(path.name for path in folder.iterdir()) == [
        *("line-000002.eml", "line-000002.html", "line-000002.txt"),
        *("line-000004.eml", "line-000004.html", "line-000004.txt"),
    ]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    message = email.message_from_bytes(
        (folder / "line-000004.eml").read_bytes(), policy=policy.default
    )
    assert (message["To"], message["Subject"]) == ("p3@home.test", "Report for Child 3")
    shown = (folder / "line-000004.html").read_text("utf-8-sig")
    assert shown.strip() == "<p>Child 3 has A&lt;</p>"
    assert not school.rejects.exists()


def test_a_preview_has_the_message_id_that_will_be_sent(school: School) -> None:
    school.write_rows([pupil(1)])
    folder = school.folder / "look"
    assert school.plan("--preview", "9", "--preview-dir", str(folder)).code == 0
    assert school.plan().code == 0
    ((key,),) = school.select("SELECT encode(intent_key, 'hex') FROM sendledger.intent")
    assert f"Message-ID: <{key}@" in (folder / "line-000002.eml").read_text()


def test_a_preview_replaces_an_earlier_one_and_nothing_else(school: School) -> None:
    folder = school.folder / "look"
    school.write_rows([pupil(1), pupil(2)])
    assert school.plan("--preview", "2", "--preview-dir", str(folder)).code == 0
    assert school.plan("--preview", "1", "--preview-dir", str(folder)).code == 0
    assert len(list(folder.glob("*.eml"))) == 1
    (folder / "notes.txt").write_text("mine")
    done = school.plan("--preview", "1", "--preview-dir", str(folder))
    assert done.code == 2
    assert "choose another folder" in done.err
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_preview_that_cannot_be_written_says_so(school: School) -> None:
    school.write_rows([pupil(1)])
    done = school.plan("--preview", "1", "--preview-dir", str(school.folder / "no" / "where"))
    assert done.code == 2
    assert "the preview cannot be written (no such file or directory)" in done.err


def test_a_preview_of_the_null_device_is_no_recipients(school: School) -> None:
    done = school.plan("--preview", "1", recipients=Path(os.devnull))
    assert done.code == 2
    assert "line 1: expected a line with the names of the columns" in done.err
