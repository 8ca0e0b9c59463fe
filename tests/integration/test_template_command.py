"""The template commands, and what planning keeps of content that was made ready."""

from __future__ import annotations

import email
import json
import re
from collections.abc import Sequence
from email import policy
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from plan_kit import NOTHING, School, found_school, pupil
from sendledger.cli import main

HTML = "  html: <p>{{name}} has {{grade}}</p>\n"
TEXT = "  text: |\n    Dear parents of {{name}},\n    the grade is {{grade}}.\n"
STYLED = (
    "  html: <style>b{color:red}</style><p>{{name}} has <b>{{grade}}</b></p>\n  inline_css: true\n"
)
LETTER = """\
<mjml><mj-body><mj-section><mj-column>
  <mj-text>{{name}} &amp; all</mj-text>
  <mj-table>{{#grade}}<tr><td>{{grade}}</td></tr>{{/grade}}</mj-table>
</mj-column></mj-section></mj-body></mjml>
"""
LIST = "sender: reports@school.example, unsubscribe_url: https://send.school.example/u"


@pytest.fixture
def away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> School:
    """Return a school whose database is out of reach."""
    dsn = "postgresql://nobody@127.0.0.1:9/none"
    monkeypatch.setenv("PLAN_TEST_DSN", dsn)
    return found_school(tmp_path, dsn, UUID(int=1), capsys)


def template(school: School, command: str, *options: str) -> tuple[int, str, str]:
    """Run a template command on the school's batch; returns its code, and what it said."""
    config = ["-c", str(school.folder / "sendledger.yaml")]
    with pytest.raises(SystemExit) as ended:
        main(["template", command, str(school.folder / "batch.yaml"), *config, *options])
    shown = school.capsys.readouterr()
    code = ended.value.code
    return int(code or 0), shown.out, shown.err


def offer_a_way_out(school: School) -> None:
    settings = school.folder / "sendledger.yaml"
    settings.write_text(settings.read_text().replace("sender: reports@school.example", LIST))


def test_check_says_what_would_be_sent_without_a_database(away: School) -> None:
    away.write_batch((HTML, STYLED), (TEXT, ""))
    code, out, err = template(away, "check")
    assert (code, err) == (0, "")
    first, revision, shows = out.splitlines()
    assert first.endswith("can be sent on email (text made of what was written)")
    assert len(revision.removeprefix("template revision ")) == 64
    assert shows == "shows grade, name"


def test_check_writes_every_row_and_tells_the_bad_ones(away: School) -> None:
    away.write_rows([pupil(1), pupil(2, first_name="two\nlines"), pupil(3, grade=" "), pupil(4)])
    code, out, err = template(away, "check", "-r", str(away.recipients))
    assert code == 1
    assert out.endswith("4 rows, 2 would be rejected\n")
    lines = err.splitlines()
    assert lines[0].startswith("sendledger: line 3 first_name: the subject holds a line break")
    assert lines[1].startswith("sendledger: line 5 grade: the value is empty")
    assert len(lines) == 2


def test_check_tells_no_more_bad_rows_than_a_person_reads(away: School) -> None:
    away.write_rows([pupil(number, grade="") for number in range(1, 31)])
    _, out, err = template(away, "check", "-r", str(away.recipients))
    assert out.endswith("30 rows, 30 would be rejected\n")
    assert len(err.splitlines()) == 20


def test_check_as_json_names_what_was_made(away: School) -> None:
    (away.folder / "letter.mjml").write_text(LETTER)
    away.write_batch((HTML, "  mjml: {$file: letter.mjml}\n"), (TEXT, ""))
    away.write_rows([pupil(1)])
    code, out, _ = template(away, "check", "-r", str(away.recipients), "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["parts"], found["made_of"]) == (["html", "subject", "text"], ["mjml"])
    assert (found["variables"], found["rows"], found["rejected"]) == (["grade", "name"], 1, 0)
    page = (Path(__file__).parents[2] / "docs/json.md").read_text(encoding="utf-8")
    section = page.partition("## template check\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)", section, re.MULTILINE)) == found.keys()


@pytest.mark.parametrize(
    ("changes", "letter", "told"),
    [
        ([], LETTER.replace("{{name}}", "{{{name}}}"), "letter.mjml: content.mjml (line 2, column 12)"),
        ([], LETTER.replace("mj-text", "mj-txt"), "letter.mjml: content.mjml (line 2, column 3)"),
        ([], LETTER.replace("{{name}}", "{{nick}}"), "letter.mjml: content.mjml (line 2, column 12)"),
        (
            [],
            LETTER.replace("<mj-table>", "<mj-table>{{name}}"),
            "letter.mjml: content.mjml (line 3, column 13): {{name}} stands in a table",
        ),
        ([("{{name}}\n  text", "{{name\n  text")], LETTER, "batch.yaml: content.subject (line 9, column 23)"),
        ([("of {{name}}", "of {{>name}}")], LETTER, "batch.yaml: content.text (line 11, column 21)"),
        ([("  subject", "  inline_css: maybe\n  subject")], LETTER, "expected true or false"),
    ],
)  # fmt: skip
def test_check_tells_what_is_wrong_where_it_was_written(
    away: School, changes: Sequence[tuple[str, str]], letter: str, told: str
) -> None:
    (away.folder / "letter.mjml").write_text(letter)
    inlined = "  mjml: {$file: letter.mjml}\n  inline_css: true\n"
    away.write_batch((HTML, HTML if "maybe" in str(changes) else inlined), *changes)
    code, out, err = template(away, "check")
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


def test_preview_writes_what_a_reader_will_see(away: School) -> None:
    away.write_batch((HTML, STYLED), (TEXT, ""))
    away.write_rows([pupil(1, first_name="Zoë <b>", grade="A&B"), pupil(2)])
    out = away.folder / "looks"
    code, said, _ = template(
        away, "preview", "-r", str(away.recipients), "-n", "1", "--out", str(out)
    )
    assert (code, said) == (0, f"wrote 1 to {out}, rejected 0; nothing was planned\n")
    assert sorted(path.name for path in out.iterdir()) == [
        *("line-000002.eml", "line-000002.html", "line-000002.txt"),
    ]
    html = (out / "line-000002.html").read_bytes()
    assert html.startswith("\ufeff".encode())
    assert 'Zoë &lt;b&gt; has <b style="color: red;">A&amp;B</b>' in html.decode()
    assert (out / "line-000002.txt").read_text("utf-8-sig").strip() == "Zoë <b> has A&B"
    message = email.message_from_bytes(
        (out / "line-000002.eml").read_bytes(), policy=policy.default
    )
    assert message["Subject"] == "Report for Zoë <b>"


def test_preview_of_a_row_that_cannot_be_written_says_so(away: School) -> None:
    away.write_rows([pupil(1, first_name="x" * 1200)])
    code, _, err = template(
        away, "preview", "-r", str(away.recipients), "--out", str(away.folder / "looks")
    )
    assert code == 1
    assert "line 2 first_name: the subject is longer than 998 octets" in err


def content(school: School) -> dict[str, Any]:
    ((parts, settings, authored),) = school.select(
        "SELECT parts, settings, authored FROM sendledger.content"
    )
    return {"parts": parts, "settings": settings, "authored": authored}


def test_planning_keeps_what_is_sent_and_beside_it_what_was_written(school: School) -> None:
    school.write_batch((HTML, STYLED), (TEXT, ""))
    school.write_rows([pupil(1)])
    assert school.plan().code == 0
    kept = content(school)
    assert 'style="color: red;"' in kept["parts"]["html"]
    assert kept["parts"]["text"] == "{{name}} has {{grade}}\n"
    assert kept["authored"] == {
        "html": "<style>b{color:red}</style><p>{{name}} has <b>{{grade}}</b></p>"
    }
    assert school.plan().out.startswith("planned 0, already planned 1")


def test_content_that_is_sent_as_it_was_written_is_kept_once(school: School) -> None:
    school.write_rows([pupil(1)])
    assert school.plan().code == 0
    assert content(school)["authored"] == {}
    assert content(school)["settings"] == {}


@pytest.mark.parametrize(
    ("more", "lane", "kept"),
    [
        ("", "", "yes"),
        ("", "lane: transactional\n", "no"),
        ("  settings: {unsubscribe: no}\n", "", "no"),
        ("  settings: {unsubscribe: yes}\n", "lane: transactional\n", "yes"),
    ],
)
def test_whether_a_way_out_is_offered_is_planned_with_the_content(
    school: School, more: str, lane: str, kept: str
) -> None:
    offer_a_way_out(school)
    school.write_batch(more=more + lane)
    school.write_rows([pupil(1)])
    assert school.plan().code == 0
    assert content(school)["settings"] == {"unsubscribe": kept}


def test_a_way_out_that_the_channel_cannot_offer_plans_nothing(school: School) -> None:
    school.write_batch(more="  settings: {unsubscribe: yes}\n")
    school.write_rows([pupil(1)])
    done = school.plan()
    assert done.code == 2
    assert "unsubscribe: yes needs unsubscribe_url" in done.err
    assert school.counts() == NOTHING


def test_a_subject_that_is_too_long_rejects_its_row_and_holds_nobody_else(school: School) -> None:
    school.write_rows([pupil(1, first_name="x" * 1200), pupil(2)])
    done = school.plan()
    assert (done.code, done.out.split(",")[0]) == (1, "planned 1")
    ((line, column, reason, _),) = school.rejected()
    assert (line, column) == ("2", "first_name")
    assert "longer than 998 octets" in reason
