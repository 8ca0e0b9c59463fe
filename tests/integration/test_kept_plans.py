"""Kept plans: made for a ledger of one row, they still find each row by its key when there are thousands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from plans import handing_over, nodes_of
from sendledger.store.statements import statement

TOKEN = UUID(int=7)

CONTENT = """
INSERT INTO sendledger.content (template_revision, parts, settings) VALUES (sha256('t'), '{}', '{}')
"""
FILL = """
WITH b AS (
    INSERT INTO sendledger.batch (content_id, authorized_at, lane, report, channel, content_revision,
        purpose, authorization_id, authorized_by, scope_keys)
    SELECT content_id, now(), 1, 'report-' || n, 'mail', '1', 'news', 'A-1', 'clerk', ARRAY['batch:' || n]
    FROM sendledger.content, generate_series(%(first)s::integer, %(last)s) AS n
    RETURNING batch_id
),
i AS (
    INSERT INTO sendledger.intent (batch_id, intent_key, recipient_fingerprint, destination_fingerprint,
        content_digest, eligible_at)
    SELECT batch_id, key, key, key, key, now()
    FROM b, generate_series(1, 4) AS n, LATERAL (SELECT decode(md5(batch_id || '/' || n), 'hex') AS key) AS k
    RETURNING intent_id, batch_id
),
s AS (
    INSERT INTO sendledger.recipient_secret (intent_id, recipient_id, destination, variables)
    SELECT intent_id, 'R' || intent_id, 'r@example.test', '{}' FROM i
)
INSERT INTO sendledger.delivery (intent_id, batch_id, channel, lane, status, awaits, due_at, wake_at)
SELECT intent_id, batch_id, 'mail', 1, 'planned', 'dispatch', now(), now() FROM i
"""
CLAIM = "UPDATE sendledger.delivery SET claim_token = %s, lease_until = now() + interval '1 hour'"

CALLS = handing_over("mail", TOKEN)
TABLES = ("delivery", "intent", "batch", "recipient_secret", "attempt", "observation")


@pytest.fixture
def session(database: str) -> Iterator[psycopg.Connection]:
    """Lend a session that made its plans when statistics knew of one batch; there are hundreds now."""
    with psycopg.connect(database, autocommit=True) as session:
        for table in TABLES:
            session.execute(f"ALTER TABLE sendledger.{table} SET (autovacuum_enabled = false)")
        session.execute(CONTENT)
        session.execute(FILL, {"first": 1, "last": 1})
        session.execute("VACUUM ANALYZE")
        for name, parameters in CALLS.items():
            with session.transaction(force_rollback=True):
                session.execute(statement(name), parameters)
        with psycopg.connect(database, autocommit=True) as other:
            other.execute(FILL, {"first": 2, "last": 500})
        yield session


def by_no_key(nodes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the reads of a table that do not begin at a key: (table, how)."""
    return [
        (node["Relation Name"], node["Node Type"])
        for node in nodes
        if node.get("Relation Name") in TABLES
        and node["Node Type"] in {"Seq Scan", "Index Scan", "Index Only Scan"}
        and "Index Cond" not in node
    ]


def test_a_claim_finds_each_row_by_its_key(session: psycopg.Connection) -> None:
    nodes = nodes_of(session, statement("claim_deliveries"), CALLS["claim_deliveries"])
    assert by_no_key(nodes) == []
    assert "delivery_claim" in [node.get("Index Name") for node in nodes]


def test_an_opening_and_its_acceptance_find_each_row_by_its_key(
    session: psycopg.Connection,
) -> None:
    session.execute(CLAIM, [TOKEN])
    nodes = nodes_of(session, statement("open_attempts"), CALLS["open_attempts"])
    assert by_no_key(nodes) == []
    assert (
        len(session.execute(statement("open_attempts"), CALLS["open_attempts"]).fetchall()) == 100
    )
    nodes = nodes_of(session, statement("record_accepted"), CALLS["record_accepted"])
    assert by_no_key(nodes) == []
