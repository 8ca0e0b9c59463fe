"""The checker of the crash matrix finds every kind of lie: ledgers doctored by hand, one rule at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from acceptance.doctored_books import OF_INTENTS, Books, keep, token_of
from acceptance.ledger_checker import decode_token


@pytest.fixture
def books(shared_database: str, tmp_path: Path) -> Iterator[Books]:
    """Lend books in which everything is right."""
    journal = tmp_path / "accepted.jsonl"
    journal.touch()
    with psycopg.connect(shared_database, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        books = Books(connection=connection, dsn=shared_database, journal=journal)
        keep(books)
        assert books.complaints() == []
        yield books


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
