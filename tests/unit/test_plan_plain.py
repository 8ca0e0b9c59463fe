"""What is plain to see need not be written, and what comes of it is the same."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sendledger.journal.batch import Authorization, Batch, Entry, Reject, Row
from sendledger.journal.intake import Intake
from sendledger.journal.plain import PlainTexts
from sendledger.journal.variables import write_variables
from sendledger.keys import KeyRing
from sendledger.plugin import Addressee, ContentFault
from sendledger.plugin.host import PluginHost
from smtp_kit import settings_for

BATCH = Batch(
    report="spring-reports",
    content_revision="1",
    channel="email",
    purpose="school-reports",
    authorization=Authorization(
        id="AUTH-1", by="head of school", at=datetime(2026, 3, 2, 9, tzinfo=UTC)
    ),
    parts={
        "subject": "Report of {{name}}",
        "text": "{{name}}: {{grade}}{{#note}} ({{.}}){{/note}}{{^note}}.{{/note}}",
        "html": "<p>{{name}} {{#note}}{{grade}}{{note}}{{/note}}</p>",
    },
)
GOOD = Row(1, "s1", "p1@home.test", {"name": "Ann", "grade": "B", "note": "well done"})


class Relay:
    """Where nobody will ever connect."""

    host = "127.0.0.1"
    port = 9


class Counted:
    """A writer that counts, and says no more of itself than *plain_text*."""

    def __init__(self, intake: Intake, *, plain_text: bool) -> None:
        self.plain_text = plain_text
        self.writes = 0
        self._write = intake._writer.write

    def write(self, addressee: Addressee) -> bytes:
        self.writes += 1
        return self._write(addressee)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plain")


@pytest.fixture(scope="module")
def host() -> PluginHost:
    made = PluginHost()
    made.load_plugin("smtp")
    made.build_channel("email", "smtp", settings_for(Relay()))
    made.seal()
    return made


def intake_of(
    host: PluginHost, folder: Path, *, plain_text: bool, batch: Batch = BATCH
) -> tuple[Intake, Counted]:
    """Return an intake and its writer, which promises to take plain text for plain text or does not."""
    intake = Intake(batch, host.channel("email"), KeyRing.load_or_create(folder / "keys.json"))
    counted = Counted(intake, plain_text=plain_text)
    intake._writer = counted
    intake._plain = PlainTexts(intake.names, counted)
    return intake, counted


@pytest.fixture(scope="module")
def trusting(host: PluginHost, folder: Path) -> Intake:
    intake, _ = intake_of(host, folder, plain_text=True)
    assert not isinstance(intake.read(GOOD), Reject)
    return intake


@pytest.fixture(scope="module")
def trying(host: PluginHost, folder: Path) -> Intake:
    return intake_of(host, folder, plain_text=False)[0]


texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "",
            " ",
            "\u00a0",
            "a\nb",
            "a\0b",
            "\ud800",
            '"',
            "\\",
            "%s",
            "ü",
            "\u2028",
            "\x7f",
            "🙂",
            "x" * 999,
        ]
    ),
)
values = st.one_of(
    texts, texts, st.none(), st.integers(), st.lists(texts, max_size=2), st.just(0.5)
)


@settings(max_examples=500, deadline=None)
@given(
    variables=st.dictionaries(st.sampled_from(["name", "grade", "note", "more"]), values),
    recipient=texts,
    destination=st.one_of(st.just("p1@home.test"), st.just("mü@home.test"), texts),
)
@example(variables=dict(GOOD.variables), recipient="s1", destination="p1@home.test")
@example(
    variables={"name": "x" * 988, "grade": "B", "note": "n"}, recipient="s", destination="p@h.test"
)
def test_every_row_has_the_same_intent_or_the_same_reject_as_if_it_was_written(
    trusting: Intake, trying: Intake, variables: dict[str, Any], recipient: str, destination: str
) -> None:
    row = Row(2, recipient, destination, variables)
    assert trusting.read(row) == trying.read(row)


rows = st.builds(
    Row,
    st.just(2),
    st.one_of(st.just("s1"), texts),
    st.one_of(st.just("p1@home.test"), texts),
    st.fixed_dictionaries(
        dict.fromkeys(["name", "grade", "note"], st.one_of(st.just("B"), st.just("B"), values))
    ),
    st.just(()),
)
entries = st.lists(
    st.one_of(rows, st.just(Reject(line=3, field="", reason="ragged", remedy="mend it"))),
    max_size=8,
)


@settings(max_examples=100, deadline=None)
@given(given_entries=entries)
def test_rows_read_together_have_what_each_has_alone(
    trusting: Intake, given_entries: list[Entry]
) -> None:
    assert trusting.read_all(given_entries) == [
        entry if isinstance(entry, Reject) else trusting.read(entry) for entry in given_entries
    ]


def test_one_odd_value_among_many_rows_has_few_of_them_written(
    host: PluginHost, folder: Path
) -> None:
    intake, counted = intake_of(host, folder, plain_text=True)
    intake.read(GOOD)
    before = counted.writes
    odd = GOOD._replace(variables={**GOOD.variables, "name": 'Ann "A"'})
    assert not any(isinstance(one, Reject) for one in intake.read_all([*[GOOD] * 60, odd, GOOD]))
    assert counted.writes == before + 1


def test_of_many_plain_rows_few_are_written(host: PluginHost, folder: Path) -> None:
    trusting, few = intake_of(host, folder, plain_text=True)
    trying, all_of_them = intake_of(host, folder, plain_text=False)
    for number in range(200):
        row = Row(
            number, f"s{number}", f"p{number}@home.test", {**GOOD.variables, "name": f"N{number}"}
        )
        assert trusting.read(row) == trying.read(row)
    assert all_of_them.writes == 200
    assert few.writes < 10


def test_what_no_message_can_be_written_with_is_tried_each_time(
    host: PluginHost, folder: Path
) -> None:
    nested = replace(BATCH, parts={"subject": "Report", "text": "{{school.town}}"})
    intake, counted = intake_of(host, folder, plain_text=True, batch=nested)
    assert not isinstance(intake.read(GOOD._replace(variables={"school": {"town": "Ulm"}})), Reject)
    before = counted.writes
    assert isinstance(intake.read(GOOD._replace(variables={"school": "Ulm"})), Reject)
    assert counted.writes > before


@settings(deadline=None)
@given(given_values=st.lists(st.text(max_size=20), min_size=2, max_size=2))
def test_what_is_told_at_sight_is_stored_as_it_always_is(given_values: list[str]) -> None:
    class Agreeable:
        plain_text = True

        def write(self, addressee: Addressee) -> bytes:
            return addressee.destination.encode()

    plain = PlainTexts(("a", "ä-b"), Agreeable())
    plain.prove(lambda _: True)
    variables = dict(zip(("a", "ä-b"), given_values, strict=True))
    (found,) = plain.texts(["p@home.test"], [{**variables, "other": object()}])
    assert found in {None, write_variables_or_none(variables)}


def write_variables_or_none(variables: dict[str, str]) -> str | None:
    try:
        return write_variables(variables)
    except ValueError:
        return None


# --- the promise of email --------------------------------------------------------------------


def printable(*, per_text: int) -> Iterator[str]:
    """Yield every printable character there is, some at a time."""
    found = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isprintable()]
    for first in range(0, len(found), per_text):
        yield "".join(found[first : first + per_text])


def addressee(**variables: str) -> Addressee:
    return Addressee(
        intent_key="0" * 32,
        attempt_number=1,
        token="a" * 44,
        destination="p1@home.test",
        variables=variables,
    )


def test_email_takes_every_printable_character_for_any_other(trying: Intake) -> None:
    for text in printable(per_text=60):
        assert trying._writer.write(addressee(name=text, grade=text, note=text))


def test_email_refuses_a_longer_text_where_it_refuses_a_shorter_one(trying: Intake) -> None:
    def refused(text: str) -> bool:
        try:
            trying._writer.write(addressee(name=text, grade="B", note="n"))
        except ContentFault:
            return True
        return False

    for character in "xü€🙂":
        octets = len(character.encode())
        found = [refused(character * (length // octets)) for length in range(900, 1100, octets)]
        assert found == sorted(found)
        assert found[0] < found[-1]


def test_a_writer_that_promises_nothing_is_asked_each_time() -> None:
    class Mute:
        def write(self, addressee: Addressee) -> bytes:
            return addressee.destination.encode()

    plain = PlainTexts(("name",), Mute())
    plain.prove(lambda _: True)
    assert plain.texts(["p1@home.test"], [{"name": "Ann"}]) == [None]


def test_the_promise_of_email_reaches_planning(host: PluginHost, folder: Path) -> None:
    intake = Intake(BATCH, host.channel("email"), KeyRing.load_or_create(folder / "keys.json"))
    intake.read(GOOD)
    found = intake._plain.texts([GOOD.destination], [GOOD.variables])
    assert found == [write_variables(GOOD.variables)]


# --- what a reject leaves behind -------------------------------------------------------------


def test_a_reject_keeps_nothing_alive_that_only_a_collector_could_free(trusting: Intake) -> None:
    """A million rows are read without one: what an exception holds are the frames of all who called."""
    bad = (
        GOOD._replace(destination="nobody"),
        GOOD._replace(recipient_id=" "),
        GOOD._replace(variables={}),
    )
    gc.collect()
    gc.disable()
    try:
        assert all(isinstance(trusting.read(row), Reject) for row in bad)
        assert gc.collect() == 0
    finally:
        gc.enable()
