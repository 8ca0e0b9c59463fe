"""Kept plans: made for a ledger of one row, they still find each row by its key when there are thousands."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from plans import nodes_of
from sendledger.store.attempts import DISPATCH_LOCK
from sendledger.store.statements import statement

TOKEN = UUID(int=7)
IDS = list(range(1, 101))
"""The rows that are opened and recorded: claimed by the test, all due."""

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

CALLS: dict[str, dict[str, Any]] = {
    "claim_deliveries": {
        "channel": "mail",
        "lane": 1,
        "now": None,
        "wake_from": None,
        "intent_from": None,
        "probing": False,
        "claim_max": 100,
        "claim_token": UUID(int=1),
        "lease": timedelta(seconds=30),
    },
    "open_attempts": {
        "dispatch_lock": DISPATCH_LOCK,
        "intent_ids": IDS,
        "seqs": [0] * 100,
        "decision_seqs": [None] * 100,
        "claim_tokens": [TOKEN] * 100,
        "go_until": ["2100-01-01T00:00:00Z"] * 100,
        "seals": [bytes(8)] * 100,
        "units": [None] * 100,
        "handoff_max": timedelta(minutes=5),
        "unknown_wait": timedelta(hours=1),
        "evidence_wait": timedelta(days=5),
        "window": timedelta(days=5),
        "margin": timedelta(seconds=10),
        "token_key_id": 1,
        "policy_revision": "test",
    },
    "record_accepted": {
        "asked": [],
        "intent_ids": IDS,
        "numbers": [1] * 100,
        "seqs": [2] * 100,
        "rules": ["default.2yz"] * 100,
        "stages": ["dot"] * 100,
        "reply_codes": [250] * 100,
        "enhanced_codes": [None] * 100,
        "provider_references": [None] * 100,
        "literals": [b"250"] * 100,
        "seals": [bytes(8)] * 100,
        "policy_revision": "test",
    },
}
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
