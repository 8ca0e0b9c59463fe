"""What tests of planning share: an installation on a test's own database, a batch, and its recipients."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from sendledger.cli import main

HEADER = ("student_id", "first_name", "guardian_email", "grade")

SETTINGS = """\
database: {dsn: {$env: PLAN_TEST_DSN}}
state_dir: state
channels:
  email:
    plugin: smtp
    settings: {host: 127.0.0.1, port: 18025, tls: none, sender: reports@school.example}
"""

BATCH = """\
report: spring-reports
content_revision: 2026-spring-1
channel: email
purpose: school-reports
authorization: {id: AUTH-2026-014, by: head of school, at: 2026-03-02T09:00:00+00:00}
recipients: {id: student_id, destination: guardian_email}
variables: {name: first_name, grade: grade}
content:
  subject: Report for {{name}}
  text: |
    Dear parents of {{name}},
    the grade is {{grade}}.
  html: <p>{{name}} has {{grade}}</p>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """How a run of the command ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True, kw_only=True)
class School:
    """A folder with settings, keys and a batch, and the database they belong to."""

    folder: Path
    dsn: str
    capsys: pytest.CaptureFixture[str]

    @property
    def rejects(self) -> Path:
        """Where the rejects of :attr:`recipients` go."""
        return self.folder / "spring.rejects.csv"

    @property
    def recipients(self) -> Path:
        """The recipients file."""
        return self.folder / "spring.csv"

    def write_batch(self, *changes: tuple[str, str], more: str = "") -> None:
        """Write the batch file with texts replaced, each of which must be there, and *more* at its end."""
        text = BATCH
        for found, put in changes:
            assert found in text
            text = text.replace(found, put)
        (self.folder / "batch.yaml").write_text(text + more)

    def write_rows(self, rows: Iterable[Sequence[str]]) -> None:
        """Write the recipients file with the usual header."""
        with self.recipients.open("w", newline="") as file:
            csv.writer(file).writerows([HEADER, *rows])

    def arguments(self, *options: str, recipients: Path | None = None) -> list[str]:
        """Return the arguments that plan the batch, for the usual recipients unless others are given."""
        batch, config = str(self.folder / "batch.yaml"), str(self.folder / "sendledger.yaml")
        return ["plan", batch, "-r", str(recipients or self.recipients), "-c", config, *options]

    def plan(self, *options: str, recipients: Path | None = None) -> Planned:
        """Plan the batch, and return how it ended."""
        with pytest.raises(SystemExit) as ended:
            main(self.arguments(*options, recipients=recipients))
        assert isinstance(ended.value.code, int)
        shown = self.capsys.readouterr()
        return Planned(code=ended.value.code, out=shown.out, err=shown.err)

    def select(self, query: str) -> list[tuple[Any, ...]]:
        """Return what *query* finds in the ledger."""
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(query.encode()).fetchall()

    def rejected(self) -> list[list[str]]:
        """Return the rows of the rejects file, its header left out."""
        with self.rejects.open(newline="") as file:
            return list(csv.reader(file))[1:]

    def counts(self) -> tuple[int, ...]:
        """Return how many rows each table that planning writes has."""
        tables = ("content", "batch", "intent", "recipient_secret", "delivery")
        counted = ", ".join(f"(SELECT count(*) FROM sendledger.{name})" for name in tables)
        return self.select(f"SELECT {counted}")[0]


NOTHING = (0, 0, 0, 0, 0)


def pupil(number: int, **changes: str) -> list[str]:
    """Return the row of a made-up pupil."""
    row = dict(
        zip(HEADER, (f"s{number}", f"Child {number}", f"p{number}@home.test", "B"), strict=True)
    )
    return list((row | changes).values())


def write_keys(path: Path, installation_id: UUID) -> None:
    """Write a key ring for the test databases."""
    document = {
        "format": 1,
        "installation_id": str(installation_id),
        "identity": "11" * 32,
        "tokens": {"current": 1, "keys": {"1": "22" * 32}},
    }
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document))
    path.chmod(0o600)


def found_school(
    folder: Path, dsn: str, installation_id: UUID, capsys: pytest.CaptureFixture[str]
) -> School:
    """Return a school in *folder*, with the batch as it is and no recipients yet."""
    school = School(folder=folder, dsn=dsn, capsys=capsys)
    (folder / "sendledger.yaml").write_text(SETTINGS)
    write_keys(folder / "state/keys.json", installation_id)
    school.write_batch()
    return school
