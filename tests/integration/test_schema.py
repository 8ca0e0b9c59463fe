"""What the database itself refuses, whoever asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors
from psycopg.sql import SQL, Identifier

from schema_rows import (
    ATTEMPT,
    DELIVERY,
    FAULT,
    INTENT,
    OBSERVATION,
    RETRY,
    Ledger,
    insert,
    plan,
    refused,
)

APPEND_ONLY = ("policy_revision", "content", "batch", "intent", "observation", "attempt")
ERASABLE = ("recipient_secret", "evidence")
MUTABLE = (
    "installation", "delivery", "inbox", "quarantine", "pause", "back_off", "suppression", "task",
    "turn", "worker",
)  # fmt: skip


@pytest.fixture
def ledger(planned: Ledger) -> Iterator[Ledger]:
    """Lend the ledger, and take back whatever the test did to it."""
    with planned.transaction(force_rollback=True):
        yield planned


@pytest.fixture(scope="module")
def planned(shared_database: str) -> Iterator[Ledger]:
    """Lend a ledger with the rows of :func:`schema_rows.plan`."""
    with psycopg.connect(shared_database, autocommit=True) as connection:
        plan(connection)
        yield connection


# --- attempts --------------------------------------------------------------------------------


@pytest.mark.parametrize("intent_id", [2, 3, 99], ids=["shadow", "imported", "missing"])
def test_what_is_not_ours_cannot_be_attempted(ledger: Ledger, intent_id: int) -> None:
    refusal = refused(ledger, "attempt", ATTEMPT, intent_id=intent_id)
    assert refusal == ("ForeignKey", "attempt_intent_is_native")


def test_a_second_attempt_needs_a_decision(ledger: Ledger) -> None:
    kind, _ = refused(ledger, "attempt", ATTEMPT, number=2, seq=4)
    assert kind == "Check"


def test_a_first_attempt_has_no_decision(ledger: Ledger) -> None:
    insert(ledger, "observation", OBSERVATION, intent_id=4, seq=1, authorises=2, **RETRY)
    kind, _ = refused(ledger, "attempt", ATTEMPT, intent_id=4, seq=2, decision_seq=1)
    assert kind == "Check"


@pytest.mark.parametrize(
    ("number", "decision_seq"),
    [(2, 2), (2, 7), (3, 3)],
    ids=["authorises-nothing", "does-not-exist", "for-another-number"],
)
def test_a_decision_authorises_the_attempt_it_names_and_no_other(
    ledger: Ledger, number: int, decision_seq: int
) -> None:
    if number == 3:
        insert(ledger, "attempt", ATTEMPT, number=2, seq=4, decision_seq=3)
    refusal = refused(ledger, "attempt", ATTEMPT, number=number, seq=5, decision_seq=decision_seq)
    assert refusal == ("ForeignKey", "attempt_intent_id_decision_seq_authorised_fkey")


def test_the_decision_of_another_intent_authorises_nothing(ledger: Ledger) -> None:
    insert(ledger, "attempt", ATTEMPT, intent_id=4)
    refusal = refused(ledger, "attempt", ATTEMPT, intent_id=4, number=2, seq=2, decision_seq=3)
    assert refusal == ("ForeignKey", "attempt_intent_id_decision_seq_authorised_fkey")


def test_attempts_have_no_gap(ledger: Ledger) -> None:
    insert(ledger, "observation", OBSERVATION, seq=4, identity="retry/3", authorises=3, **RETRY)
    refusal = refused(ledger, "attempt", ATTEMPT, number=3, seq=5, decision_seq=4)
    assert refusal == ("ForeignKey", "attempt_intent_id_previous_fkey")


@pytest.mark.parametrize("number", [0, 51])
def test_attempts_are_numbered_from_one_to_fifty(ledger: Ledger, number: int) -> None:
    refusal = refused(ledger, "attempt", ATTEMPT, intent_id=4, number=number)
    assert refusal[0] == "Check"


def test_an_attempt_is_made_once(ledger: Ledger) -> None:
    refusal = refused(ledger, "attempt", ATTEMPT, seq=4)
    assert refusal == ("Unique", "attempt_pkey")


def test_a_second_attempt_with_its_decision_is_admitted(ledger: Ledger) -> None:
    insert(ledger, "attempt", ATTEMPT, number=2, seq=4, decision_seq=3)
    refusal = refused(ledger, "attempt", ATTEMPT, number=3, seq=5, decision_seq=3)
    assert refusal == ("ForeignKey", "attempt_intent_id_decision_seq_authorised_fkey")


def test_a_window_ends_no_sooner_than_its_evidence_is_due(ledger: Ledger) -> None:
    too_soon = {"window_ends_at": "2026-03-02T11:59Z"}
    assert refused(ledger, "attempt", ATTEMPT, intent_id=4, **too_soon)[0] == "Check"


# --- intents and observations ----------------------------------------------------------------


def test_two_intents_never_share_a_key(ledger: Ledger) -> None:
    refusal = refused(ledger, "intent", INTENT, intent_key=b"\x01" * 16)
    assert refusal == ("Unique", "intent_intent_key_key")


@pytest.mark.parametrize(
    "changes",
    [
        {"intent_key": b"short"},
        {"recipient_fingerprint": b"short"},
        {"destination_fingerprint": b"short"},
        {"content_digest": b"short"},
        {"provenance": "borrowed"},
        {"correction": -1},
        {"not_after": "2026-03-02T08:00Z"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_an_intent_is_whole(ledger: Ledger, changes: dict[str, Any]) -> None:
    values = INTENT | {"intent_key": b"\x07" * 16}
    assert refused(ledger, "intent", values, **changes)[0] == "Check"


WRONG_OBSERVATIONS: dict[str, dict[str, Any]] = {
    "outcome-and-ruling": {**FAULT, "ruling": "ask", "due_at": "2026-03-02T08:10Z"},
    "outcome-without-attempt": {"outcome": "accepted"},
    "refusal-without-scope": {"attempt": 1, "outcome": "permanent"},
    "acceptance-with-scope": {"attempt": 1, "outcome": "accepted", "scope": "sender"},
    "ruling-with-scope": {"ruling": "stop", "scope": "recipient"},
    "retry-without-number": {**RETRY},
    "retry-for-the-first": {**RETRY, "authorises": 1},
    "wait-that-authorises": {**RETRY, "ruling": "wait", "authorises": 2},
    **{
        f"{ruling}-without-end": {"ruling": ruling}
        for ruling in ("retry", "wait", "hold", "release", "ask")
    },
    "unknown-outcome": {"attempt": 1, "outcome": "rumoured"},
    "unknown-ruling": {"ruling": "shrug"},
    "unknown-source": {"source": "rumour"},
    "unknown-scope": {**FAULT, "scope": "weather"},
    "no-place": {"seq": 0},
    "no-rule": {"rule": ""},
    "no-identity": {"identity": ""},
    "short-seal": {"seal": b"short"},
    "negative-attempt": {"attempt": -1},
}


@pytest.mark.parametrize("name", WRONG_OBSERVATIONS)
def test_an_observation_that_contradicts_itself_is_refused(ledger: Ledger, name: str) -> None:
    assert refused(ledger, "observation", OBSERVATION, **WRONG_OBSERVATIONS[name])[0] == "Check"


def test_two_rows_never_share_a_place(ledger: Ledger) -> None:
    refusal = refused(ledger, "observation", OBSERVATION, seq=2)
    assert refusal == ("Unique", "observation_pkey")


def test_an_event_is_stored_once_for_each_source(ledger: Ledger) -> None:
    again = {"identity": "result/1"}
    refusal = refused(ledger, "observation", OBSERVATION, **again)
    assert refusal == ("Unique", "observation_intent_id_source_identity_key")
    insert(ledger, "observation", OBSERVATION, **again, source="receipt")


def test_an_observation_belongs_to_an_intent(ledger: Ledger) -> None:
    refusal = refused(ledger, "observation", OBSERVATION, intent_id=99)
    assert refusal == ("ForeignKey", "observation_intent_id_fkey")


def test_literal_evidence_belongs_to_an_observation(ledger: Ledger) -> None:
    literal = {"intent_id": 1, "seq": 99, "literal": b"250 ok"}
    assert refused(ledger, "evidence", literal) == ("ForeignKey", "evidence_intent_id_seq_fkey")


# --- parents that are looked up once for a statement -----------------------------------------

SECRET = {"recipient_id": "p", "destination": "d", "variables": "{}"}


def test_an_intent_belongs_to_a_batch(ledger: Ledger) -> None:
    refusal = refused(ledger, "intent", INTENT, intent_key=bytes(16), batch_id=99)
    assert refusal == ("ForeignKey", "intent_batch_exists")


@pytest.mark.parametrize(("table", "row"), [("delivery", DELIVERY), ("recipient_secret", SECRET)])
def test_what_hangs_on_an_intent_needs_it_and_never_moves_to_another(
    ledger: Ledger, table: str, row: dict[str, Any]
) -> None:
    refusal = refused(ledger, table, row, intent_id=99)
    assert refusal == ("ForeignKey", f"{table}_intent_exists")
    insert(ledger, table, row, intent_id=1)
    move = SQL("UPDATE {} SET intent_id = 4").format(Identifier("sendledger", table))
    with pytest.raises(errors.InsufficientPrivilege, match="never changed"), ledger.transaction():
        ledger.execute(move)


SECRETS = "INSERT INTO sendledger.recipient_secret SELECT n, 'p', 'd', '{}' FROM unnest(%s::bigint []) AS n"


@pytest.mark.parametrize("intent_ids", [[1, 2, 99, 3], [2, 3, 4, 5], [4, 5], [0, 1, 2], [5, 6]])
def test_of_many_rows_in_one_statement_not_one_may_lack_its_intent(
    ledger: Ledger, intent_ids: list[int]
) -> None:
    with pytest.raises(errors.ForeignKeyViolation, match="its intent"), ledger.transaction():
        ledger.execute(SECRETS, [intent_ids])
    assert count(ledger, "recipient_secret") == 0


@pytest.mark.parametrize("intent_ids", [[], [4, 2, 3, 1], [1, 2, 4]])
def test_many_rows_in_one_statement_may_come_in_any_order_and_with_gaps(
    ledger: Ledger, intent_ids: list[int]
) -> None:
    ledger.execute(SECRETS, [intent_ids])
    assert count(ledger, "recipient_secret") == len(intent_ids)


def test_intents_are_never_read_one_after_the_other_to_find_one(database: str) -> None:
    """Not even by a session that looked for the first when there was only one."""
    with psycopg.connect(database) as connection:
        plan(connection)
        insert(connection, "delivery", DELIVERY, intent_id=1)
        read = "SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relid = 'sendledger.intent'::regclass"
        before = connection.execute(read).fetchone()
        connection.execute(
            "INSERT INTO sendledger.intent (batch_id, eligible_at, intent_key, recipient_fingerprint,"
            " destination_fingerprint, content_digest) SELECT 1, now(), decode(md5(n::text), 'hex'),"
            " decode(md5(''), 'hex'), decode(md5(''), 'hex'), decode(md5(''), 'hex')"
            " FROM generate_series(1, 2000) AS n"
        )
        connection.execute(
            "INSERT INTO sendledger.recipient_secret"
            " SELECT n, 'p', 'd', '{}' FROM generate_series(5, 2004) AS n"
        )
        assert connection.execute(read).fetchone() == before


# --- the ledger only grows -------------------------------------------------------------------


@pytest.mark.parametrize("table", APPEND_ONLY)
@pytest.mark.parametrize("word", ["UPDATE", "DELETE", "TRUNCATE"])
def test_a_ledger_row_is_never_changed(ledger: Ledger, table: str, word: str) -> None:
    before = count(ledger, table)
    assert before > 0
    name = Identifier("sendledger", table)
    seal = Identifier(first_column(ledger, table))
    statements = {
        "UPDATE": SQL("UPDATE {name} SET {seal} = {seal}").format(name=name, seal=seal),
        "DELETE": SQL("DELETE FROM {name}").format(name=name),
        "TRUNCATE": SQL("TRUNCATE {name} CASCADE").format(name=name),
    }
    never = "ledger rows are never changed"
    with pytest.raises(errors.InsufficientPrivilege, match=never), ledger.transaction():
        ledger.execute(statements[word])
    assert count(ledger, table) == before


def test_what_can_be_read_of_a_person_can_be_erased(ledger: Ledger) -> None:
    secret = {"intent_id": 1, "recipient_id": "p", "destination": "d", "variables": "{}"}
    insert(ledger, "recipient_secret", secret)
    insert(ledger, "evidence", {"intent_id": 1, "seq": 2, "literal": b"450 no"})
    for table in ERASABLE:
        ledger.execute(SQL("DELETE FROM {}").format(Identifier("sendledger", table)))
        assert count(ledger, table) == 0


def test_every_table_is_ledger_erasable_or_mutable_on_purpose(ledger: Ledger) -> None:
    guarded = ledger.execute(
        "SELECT c.relname FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid"
        " WHERE t.tgname = 'append_only'"
    ).fetchall()
    assert {name for (name,) in guarded} == set(APPEND_ONLY)
    tables = ledger.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'sendledger'"
    ).fetchall()
    known = {*APPEND_ONLY, *ERASABLE, *MUTABLE}
    assert {name for (name,) in tables} - known == set()


def count(ledger: Ledger, table: str) -> int:
    query = SQL("SELECT count(*) FROM {}").format(Identifier("sendledger", table))
    [(rows,)] = ledger.execute(query).fetchall()
    return int(rows)


def first_column(ledger: Ledger, table: str) -> str:
    query = SQL("SELECT * FROM {} LIMIT 0").format(Identifier("sendledger", table))
    description = ledger.execute(query).description
    assert description
    # Identity columns cannot be set at all; the second column of each table can.
    return description[1].name


# --- the projection --------------------------------------------------------------------------


@pytest.mark.parametrize("terminal", ["delivered", "failed", "suppressed"])
@pytest.mark.parametrize("other", ["planned", "delivered", "failed", "suppressed"])
def test_a_terminal_status_never_moves(ledger: Ledger, terminal: str, other: str) -> None:
    end = "UPDATE sendledger.delivery SET status = %s, awaits = NULL, due_at = NULL"
    ledger.execute(end, [terminal])
    if terminal == other:
        ledger.execute(end, [other])
        return
    with pytest.raises(errors.InsufficientPrivilege, match="terminal statuses are never changed"):
        ledger.execute(end, [other])


WRONG_DELIVERIES: dict[str, dict[str, Any]] = {
    "awaits-without-due": {"due_at": None},
    "due-without-awaits": {"awaits": None},
    "terminal-that-awaits": {"status": "failed"},
    "submitting-without-result": {"status": "submitting"},
    "result-without-submitting": {"awaits": "result"},
    "unknown-status": {"status": "sent"},
    "unknown-awaits": {"awaits": "luck"},
    "claim-without-lease": {"claim_token": ATTEMPT["claim_token"]},
    "lease-without-claim": {"lease_until": "2026-03-02T08:00Z"},
}


@pytest.mark.parametrize("name", WRONG_DELIVERIES)
def test_a_delivery_that_contradicts_itself_is_refused(ledger: Ledger, name: str) -> None:
    values = DELIVERY | {"intent_id": 1}
    assert refused(ledger, "delivery", values, **WRONG_DELIVERIES[name])[0] == "Check"


def test_an_intent_has_one_delivery(ledger: Ledger) -> None:
    assert refused(ledger, "delivery", DELIVERY) == ("Unique", "delivery_pkey")


# --- what stands once ------------------------------------------------------------------------

ONCE: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "pause": (
        {"scope_key": "all", "rule": "r", "began_by": "clerk"},
        "pause_open",
        {"ended_at": "2026-03-02T08:00Z", "ended_by": "clerk"},
    ),
    "suppression": (
        {"destination_fingerprint": bytes(16), "scope_key": "channel:mail", "rule": "r"},
        "suppression_standing",
        {"lifted_at": "2026-03-02T08:00Z", "lifted_by": "clerk"},
    ),
    "task": (
        {"kind": "held", "cause": "policy.poison", "scope_key": "batch:1"},
        "task_open",
        {"closed_at": "2026-03-02T08:00Z", "closed_by": "clerk"},
    ),
}


@pytest.mark.parametrize("table", ONCE)
def test_one_pause_suppression_and_task_stands_at_a_time(ledger: Ledger, table: str) -> None:
    values, index, end = ONCE[table]
    insert(ledger, table, values)
    assert refused(ledger, table, values) == ("Unique", index)
    insert(ledger, table, values, **end)


@pytest.mark.parametrize("table", ONCE)
def test_whoever_ends_a_thing_is_named(ledger: Ledger, table: str) -> None:
    values, _, end = ONCE[table]
    instant = {name: value for name, value in end.items() if name.endswith("_at")}
    assert refused(ledger, table, values, **instant)[0] == "Check"


def test_a_database_is_bound_to_one_installation(ledger: Ledger) -> None:
    another = {"installation_id": "00000000-0000-0000-0000-000000000002"}
    assert refused(ledger, "installation", another) == ("Unique", "installation_pkey")
