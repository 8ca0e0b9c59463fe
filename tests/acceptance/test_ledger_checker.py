"""The checker of the crash matrix finds every kind of lie: ledgers doctored by hand, one rule at a time."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from acceptance.ledger_checker import decode_token, violations

PLANNED = ("S1", "S2", "S3", "S4")
"""Submitted at once; submitted by the second attempt; failed; ambiguous, and in nobody's journal."""

FOUND = """
WITH content AS (
    INSERT INTO sendledger.content (template_revision, parts, settings)
    VALUES (decode(repeat('00', 32), 'hex'), '{}', '{}') RETURNING content_id
)
INSERT INTO sendledger.batch (report, channel, content_revision, purpose, lane, content_id,
    authorization_id, authorized_by, authorized_at, scope_keys)
SELECT 'spring', 'email', 'r1', 'reports', 1, content_id, 'AUTH-1', 'head', now(), '{all}'
FROM content
"""
INTENT = """
WITH added AS (
    INSERT INTO sendledger.intent (intent_id, batch_id, eligible_at, intent_key,
        recipient_fingerprint, destination_fingerprint, content_digest)
    OVERRIDING SYSTEM VALUE
    SELECT %(id)s, batch_id, now(), decode(lpad(to_hex(%(id)s::integer), 32, '0'), 'hex'),
        decode(repeat('00', 16), 'hex'), decode(repeat('00', 16), 'hex'),
        decode(repeat('00', 16), 'hex')
    FROM sendledger.batch
    RETURNING intent_id
)
INSERT INTO sendledger.recipient_secret (intent_id, recipient_id, destination, variables)
SELECT intent_id, %(recipient)s, 'pat@home.test', '{}' FROM added
"""
DELIVERY = """
INSERT INTO sendledger.delivery (intent_id, batch_id, lane, channel, status, awaits, due_at,
    attempt_count, seq)
SELECT %(id)s, batch_id, 1, 'email', %(status)s, %(awaits)s,
    CASE WHEN %(awaits)s::text IS NOT NULL THEN now() END, %(attempts)s, %(seq)s
FROM sendledger.batch
"""
ATTEMPT = """
INSERT INTO sendledger.attempt (intent_id, number, seq, decision_seq, result_due_at, unknown_due_at,
    evidence_due_at, window_ends_at, claim_token, token_key_id, policy_revision, seal)
VALUES (%(id)s, %(number)s, %(seq)s, %(decision)s, now(), now(), now(), now(), gen_random_uuid(), 1,
    'r1', decode(repeat('00', 8), 'hex'))
"""
OBSERVATION = """
INSERT INTO sendledger.observation (intent_id, seq, source, rule, identity, attempt, outcome, scope,
    ruling, authorises, due_at, policy_revision, seal)
VALUES (%(id)s, %(seq)s, %(source)s, %(rule)s, %(seq)s::text, %(attempt)s, %(outcome)s, %(scope)s,
    %(ruling)s, %(authorises)s, now(), 'r1', decode(repeat('00', 8), 'hex'))
"""
OF_INTENTS = ("observation", "attempt", "delivery", "recipient_secret", "intent")
TABLES = (*OF_INTENTS, "batch", "content")
SAID = {"source": "channel", "rule": "some.rule"} | dict.fromkeys(
    ("attempt", "outcome", "scope", "ruling", "authorises")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """A ledger and a journal that can be doctored: as owner, with triggers and foreign keys asleep."""

    connection: psycopg.Connection
    dsn: str
    journal: Path

    def do(self, statement: str, **values: Any) -> None:
        """Run one statement."""
        self.connection.execute(statement.encode(), values or None)

    def intent(self, n: int, status: str, awaits: str | None, *, attempts: int, seq: int) -> None:
        """Add an intent with its delivery."""
        self.do(INTENT, id=n, recipient=f"S{n}")
        self.do(DELIVERY, id=n, status=status, awaits=awaits, attempts=attempts, seq=seq)

    def attempt(self, n: int, number: int, seq: int, decision: int | None = None) -> None:
        """Add an attempt."""
        self.do(ATTEMPT, id=n, number=number, seq=seq, decision=decision)

    def observe(self, n: int, seq: int, **said: Any) -> None:
        """Add an observation."""
        self.do(OBSERVATION, **{**SAID, "id": n, "seq": seq, **said})

    def take(self, n: int, number: int, **changes: Any) -> None:
        """Let the relay take an attempt."""
        token = token_of(n, number)
        entry = {
            "n": len(self.journal.read_bytes().splitlines()) + 1,
            "at": datetime(2026, 3, 2, tzinfo=UTC).isoformat(),
            "mail_from": f"b+{token}@bounces.school.example",
            "envid": None,
            "rcpt": ["pat@home.test"],
            "message_id": f"<{n:032x}@school.example>",
            "token": token,
            "bytes": 1,
            "sha256": "00",
        }
        with self.journal.open("a") as file:
            file.write(json.dumps(entry | changes) + "\n")

    def complaints(self) -> list[str]:
        """Return what the checker holds against the books."""
        return violations(self.dsn, self.journal, PLANNED)


def token_of(n: int, number: int) -> str:
    """Return a token with a MAC of zeros: nobody here looks at it."""
    raw = struct.pack(">QHB", n, number, 1) + bytes(16)
    return base64.b32encode(raw).decode().rstrip("=").lower()


@pytest.fixture
def books(shared_database: str, tmp_path: Path) -> Iterator[Books]:
    """Lend books in which everything is right."""
    journal = tmp_path / "accepted.jsonl"
    journal.touch()
    with psycopg.connect(shared_database, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        books = Books(connection=connection, dsn=shared_database, journal=journal)
        for table in TABLES:
            books.do(f"DELETE FROM sendledger.{table}")
        books.do(FOUND)
        _submitted_at_once(books)
        _submitted_later(books)
        _failed(books)
        _ambiguous(books)
        assert books.complaints() == []
        yield books


def _submitted_at_once(books: Books) -> None:
    books.intent(1, "submitted", "evidence", attempts=1, seq=2)
    books.attempt(1, 1, 1)
    books.observe(1, 2, attempt=1, outcome="accepted")
    books.take(1, 1)


def _submitted_later(books: Books) -> None:
    books.intent(2, "submitted", "evidence", attempts=2, seq=5)
    books.attempt(2, 1, 1)
    books.observe(2, 2, attempt=1, outcome="transient", scope="recipient")
    books.observe(2, 3, source="policy", ruling="retry", authorises=2)
    books.attempt(2, 2, 4, decision=3)
    books.observe(2, 5, attempt=2, outcome="accepted")
    books.take(2, 2)


def _failed(books: Books) -> None:
    books.intent(3, "failed", None, attempts=1, seq=2)
    books.attempt(3, 1, 1)
    books.observe(3, 2, attempt=1, outcome="permanent", scope="recipient")


def _ambiguous(books: Books) -> None:
    books.intent(4, "ambiguous", "evidence", attempts=1, seq=2)
    books.attempt(4, 1, 1)
    books.observe(4, 2, source="lease", attempt=1, outcome="ambiguous")


# --- nobody is missing ---------------------------------------------------------------------------


def test_a_missing_recipient_is_named(books: Books) -> None:
    for table in OF_INTENTS:
        books.do(f"DELETE FROM sendledger.{table} WHERE intent_id = 4")
    assert books.complaints() == ["recipient S4 is missing: there is no intent"]


def test_a_second_intent_for_one_recipient_is_found(books: Books) -> None:
    books.do("UPDATE sendledger.recipient_secret SET recipient_id = 'S1' WHERE intent_id = 4")
    assert books.complaints() == [
        "recipient S4 is missing: there is no intent",
        "recipient S1 has 2 intents",
    ]


def test_a_recipient_nobody_planned_is_found(books: Books) -> None:
    books.do("UPDATE sendledger.recipient_secret SET recipient_id = 'S9' WHERE intent_id = 4")
    assert "recipient S9 was never planned" in books.complaints()


def test_a_missing_delivery_is_found(books: Books) -> None:
    books.do("DELETE FROM sendledger.delivery WHERE intent_id = 4")
    assert only(books).endswith("the delivery is missing")


def test_a_delivery_that_waits_for_nothing_is_found(books: Books) -> None:
    books.do(
        "UPDATE sendledger.delivery SET status = 'deferred', awaits = NULL, due_at = NULL"
        " WHERE intent_id = 4"
    )
    assert "nobody can say what it waits for" in only(books)


# --- what the relay took was committed, once ------------------------------------------------------


@pytest.mark.parametrize("number", [2, 50])
def test_an_attempt_the_relay_saw_and_the_ledger_did_not_is_found(
    books: Books, number: int
) -> None:
    books.take(4, number)
    assert only(books) == f"journal entry 3: attempt {number} of intent 4 was never committed"


def test_an_intent_nobody_knows_is_found(books: Books) -> None:
    books.take(77, 1)
    assert only(books) == "journal entry 3: attempt 1 of intent 77 was never committed"


@pytest.mark.parametrize(
    "changes",
    [
        {"token": None},
        {"token": token_of(3, 1)},
        {"mail_from": ""},
        {"mail_from": f"b+{token_of(3, 1)}@bounces.school.example"},
    ],
)
def test_header_and_return_path_must_name_the_same_attempt(
    books: Books, changes: dict[str, Any]
) -> None:
    books.take(4, 1, **changes)
    assert only(books).endswith("do not name the same attempt")


@pytest.mark.parametrize("token", ["", "no token", "a" * 43, "a" * 52])
def test_what_is_no_token_is_not_decoded(token: str) -> None:
    assert decode_token(token) is None


def test_a_token_is_decoded_by_its_documented_layout() -> None:
    assert decode_token(token_of(258, 7)) == (258, 7)


def test_a_message_id_of_another_intent_is_found(books: Books) -> None:
    books.take(4, 1, message_id=f"<{1:032x}@school.example>")
    assert "its Message-ID is not that of the intent" in only(books)


def test_an_attempt_submitted_twice_is_found(books: Books) -> None:
    books.take(4, 1)
    assert books.complaints() == []
    books.take(4, 1)
    assert any("attempt 1 was submitted 2 times" in said for said in books.complaints())


# --- nothing is submitted again without a decision ------------------------------------------------


def again(books: Books, **decision: Any) -> None:
    """Open a second attempt of the ambiguous intent, by this decision."""
    said = {"source": "policy", "rule": "policy.retry", "ruling": "retry", "authorises": 2}
    books.observe(4, 3, **{**said, **decision})
    books.attempt(4, 2, 4, decision=3)
    books.observe(4, 5, attempt=2, outcome="accepted")
    books.do(
        "UPDATE sendledger.delivery SET status = 'submitted', attempt_count = 2, seq = 5"
        " WHERE intent_id = 4"
    )
    books.take(4, 2)


def test_a_second_attempt_after_an_unknown_one_needs_a_decision_that_says_so(books: Books) -> None:
    again(books)
    assert only(books).endswith("attempt 1 was not refused and no decision names that uncertainty")


@pytest.mark.parametrize("decision", [{"source": "operator"}, {"rule": "policy.retry-unknown"}])
def test_a_decision_that_names_the_uncertainty_permits_it(
    books: Books, decision: dict[str, str]
) -> None:
    again(books, **decision)
    assert books.complaints() == []


def test_a_second_copy_is_found_even_where_a_decision_permitted_it(books: Books) -> None:
    books.take(4, 1)
    again(books, source="operator")
    assert only(books).endswith("submitted, and the relay took it 2 times")


def test_a_decision_for_another_attempt_authorises_nothing(books: Books) -> None:
    again(books, source="operator", authorises=3)
    assert "attempt 2 was opened without a decision" in only(books)


def test_an_attempt_without_any_decision_is_found(books: Books) -> None:
    books.do(
        "UPDATE sendledger.observation SET ruling = NULL, authorises = NULL"
        " WHERE intent_id = 2 AND seq = 3"
    )
    assert "attempt 2 was opened without a decision" in only(books)


def test_a_decision_after_the_fact_is_found(books: Books) -> None:
    books.do("UPDATE sendledger.observation SET seq = 14 WHERE intent_id = 2 AND seq = 3")
    books.do(
        "UPDATE sendledger.attempt SET seq = 3, decision_seq = 14"
        " WHERE intent_id = 2 AND number = 2"
    )
    assert any("attempt 2 was opened without a decision" in said for said in books.complaints())


def test_a_refusal_that_came_after_the_second_attempt_permits_nothing(books: Books) -> None:
    books.do("UPDATE sendledger.observation SET seq = 6 WHERE intent_id = 2 AND seq = 2")
    assert any("attempt 1 was not refused" in said for said in books.complaints())


# --- no gaps, and both tell the same --------------------------------------------------------------


def test_a_gap_in_the_attempt_numbers_is_found(books: Books) -> None:
    books.do("UPDATE sendledger.attempt SET number = 3 WHERE intent_id = 2 AND number = 2")
    assert any("attempt numbers are [1, 3]" in said for said in books.complaints())


def test_a_wrong_count_of_attempts_is_found(books: Books) -> None:
    books.do("UPDATE sendledger.delivery SET attempt_count = 2 WHERE intent_id = 1")
    assert only(books).endswith("the delivery counts 2 attempts, the ledger holds 1")


@pytest.mark.parametrize(
    "doctored",
    [
        "UPDATE sendledger.delivery SET seq = 3 WHERE intent_id = 1",
        "UPDATE sendledger.observation SET seq = 3 WHERE intent_id = 1",
        "UPDATE sendledger.observation SET seq = 1 WHERE intent_id = 1",
    ],
)
def test_ledger_rows_that_do_not_run_from_one_to_seq_are_found(books: Books, doctored: str) -> None:
    books.do(doctored)
    assert "ledger rows are" in only(books)


def test_a_submitted_message_that_the_relay_never_took_is_found(books: Books) -> None:
    books.journal.write_bytes(books.journal.read_bytes().splitlines(keepends=True)[1])
    assert only(books).endswith("submitted, and the relay took it 0 times")


def test_a_failed_message_that_the_relay_took_is_found(books: Books) -> None:
    books.take(3, 1)
    first, second = books.complaints()
    assert first.endswith("failed, and the relay took it 1 times")
    assert second.endswith("attempt 1 stands refused, and the relay took it")


# --- every attempt has an answer ------------------------------------------------------------------


def test_an_attempt_without_a_result_is_found(books: Books) -> None:
    books.do("UPDATE sendledger.observation SET outcome = NULL WHERE intent_id = 4")
    assert only(books).endswith("attempt 1 has neither a result nor a lease observation")


def test_a_delivery_that_is_still_submitting_is_found(books: Books) -> None:
    books.do(
        "UPDATE sendledger.delivery SET status = 'submitting', awaits = 'result'"
        " WHERE intent_id = 4"
    )
    assert only(books).endswith("still submitting, and nobody is")


def only(books: Books) -> str:
    """Return the one complaint there is."""
    [said] = books.complaints()
    return said
