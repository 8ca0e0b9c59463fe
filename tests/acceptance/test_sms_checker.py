"""The checker of the SMS crash matrix finds every kind of lie: books doctored by hand, one rule at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from acceptance.doctored_books import begin_anew
from acceptance.doctored_sms_books import SmsBooks, keep


@pytest.fixture
def books(shared_database: str, tmp_path: Path) -> Iterator[SmsBooks]:
    """Lend books in which everything is right."""
    journal = tmp_path / "accepted.jsonl"
    journal.touch()
    with psycopg.connect(shared_database, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        books = SmsBooks(connection=connection, dsn=shared_database, journal=journal)
        begin_anew(books)
        keep(books)
        assert books.complaints() == []
        yield books


# --- receipts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [200, 204])
def test_a_receipt_that_was_answered_and_is_not_in_the_ledger_is_found(
    books: SmsBooks, answer: int
) -> None:
    books.take(4, 1)
    books.call(4, 1, "delivered", answer=answer)
    assert only(books).endswith(f"the receipt delivered was answered {answer} and is lost")


@pytest.mark.parametrize("answer", [None, 403, 500, 503])
def test_a_receipt_that_was_not_taken_is_its_senders_to_keep(
    books: SmsBooks, answer: int | None
) -> None:
    books.take(4, 1)
    books.call(4, 1, "delivered", answer=answer)
    assert books.complaints() == []


def test_a_repeat_is_the_same_receipt(books: SmsBooks) -> None:
    books.call(1, 1, "delivered")
    assert books.complaints() == []


@pytest.mark.parametrize(
    "doctored",
    [
        "UPDATE sendledger.observation SET identity = '1/x' WHERE intent_id = 1 AND seq = 4",
        "UPDATE sendledger.observation SET source = 'look-up' WHERE intent_id = 1 AND seq = 4",
        "UPDATE sendledger.observation SET attempt = 2 WHERE intent_id = 2 AND seq = 2",
    ],
)
def test_the_observation_of_another_receipt_is_none_of_this_one(
    books: SmsBooks, doctored: str
) -> None:
    books.do(doctored)
    assert any(said.endswith("and is lost") for said in books.complaints())


def test_another_error_code_is_another_receipt(books: SmsBooks) -> None:
    books.call(2, 1, "undelivered", error_code=30008)
    assert only(books).endswith("the receipt undelivered was answered 204 and is lost")


def test_a_forged_callback_that_was_taken_is_found(books: SmsBooks) -> None:
    books.call(1, 1, "delivered", forged=True)
    assert only(books).endswith("a forged callback was answered 204")


def test_receipts_that_nobody_folded_are_found(books: SmsBooks) -> None:
    books.do(
        "INSERT INTO sendledger.inbox (channel, source, identity, evidence, body)"
        " VALUES ('sms', 'receipt', 'x', '{}', '')"
    )
    assert only(books) == "1 receipts wait in the inbox"


def test_receipts_that_were_set_aside_are_found(books: SmsBooks) -> None:
    books.do(
        "INSERT INTO sendledger.quarantine (received_at, channel, source, identity, reason, evidence, body)"
        " VALUES (now(), 'sms', 'receipt', 'x', 'untied', '{}', '')"
    )
    assert only(books) == "1 receipts were set aside"


# --- submissions ---------------------------------------------------------------------------------


def test_an_attempt_the_provider_took_and_the_ledger_has_not_is_found(books: SmsBooks) -> None:
    books.take(4, 2)
    assert only(books).endswith("attempt 2 of intent 4 was never committed")


@pytest.mark.parametrize("token", [None, "", "no token"])
def test_a_message_without_a_token_is_found(books: SmsBooks, token: str | None) -> None:
    books.take(4, 1, token=token)
    assert only(books).endswith("its token cannot be decoded")


def test_an_attempt_submitted_twice_is_found(books: SmsBooks) -> None:
    books.take(1, 1)
    assert only(books).endswith("attempt 1 was submitted 2 times")


def test_what_stands_refused_and_was_taken_is_found(books: SmsBooks) -> None:
    books.take(3, 1)
    assert only(books).endswith("attempt 1 stands refused, and the provider took it")


def test_what_stands_accepted_and_was_never_taken_is_found(books: SmsBooks) -> None:
    books.observe(4, 3, attempt=1, outcome="accepted")
    books.do("UPDATE sendledger.delivery SET status = 'submitted', seq = 3 WHERE intent_id = 4")
    assert only(books).endswith("attempt 1 stands accepted, and the provider never took it")


def test_a_reference_that_the_provider_never_gave_is_found(books: SmsBooks) -> None:
    books.do("UPDATE sendledger.observation SET provider_reference = 'x' WHERE seq = 2")
    assert any(
        "row 2 names a message that the provider never took" in s for s in books.complaints()
    )


def test_a_second_attempt_after_an_unknown_one_needs_a_decision_that_says_so(
    books: SmsBooks,
) -> None:
    books.observe(4, 3, source="policy", rule="policy.retry", ruling="retry", authorises=2)
    books.attempt(4, 2, 4, decision=3)
    books.observe(4, 5, attempt=2, outcome="accepted")
    books.do(
        "UPDATE sendledger.delivery SET status = 'submitted', attempt_count = 2, seq = 5"
        " WHERE intent_id = 4"
    )
    books.take(4, 2)
    assert only(books).endswith("attempt 1 was not refused and no decision names that uncertainty")


def test_a_missing_recipient_is_named(books: SmsBooks) -> None:
    books.do("UPDATE sendledger.recipient_secret SET recipient_id = 'S1' WHERE intent_id = 4")
    assert "recipient S4 is missing: there is no intent" in books.complaints()


def only(books: SmsBooks) -> str:
    """Return the one complaint there is."""
    [said] = books.complaints()
    return said
