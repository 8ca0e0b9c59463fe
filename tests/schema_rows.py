"""Rows as the schema wants them, and inserts that say which constraint refused them."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import errors
from psycopg.sql import SQL, Identifier

CONTENT = (
    "INSERT INTO sendledger.content (template_revision, parts, settings) VALUES (%s, '{}', '{}')"
)
BATCH = """INSERT INTO sendledger.batch (content_id, authorized_at, lane, report, channel,
    content_revision, purpose, authorization_id, authorized_by, scope_keys)
    VALUES (1, now(), 1, 'spring', 'mail', 'r1', 'news', 'council-7', 'clerk', '{all}')"""
POLICY = "INSERT INTO sendledger.policy_revision (revision, document) VALUES ('test-1', '{}')"

INTENT: dict[str, Any] = {
    "batch_id": 1,
    "eligible_at": "2026-03-02T08:00Z",
    "recipient_fingerprint": bytes(16),
    "destination_fingerprint": bytes(16),
    "content_digest": bytes(16),
}
OBSERVATION: dict[str, Any] = {
    "intent_id": 1,
    "seq": 9,
    "source": "channel",
    "rule": "test.rule",
    "identity": "test/9",
    "policy_revision": "test-1",
    "seal": bytes(8),
}
ATTEMPT: dict[str, Any] = {
    "intent_id": 1,
    "number": 1,
    "seq": 1,
    "claim_token": "00000000-0000-0000-0000-000000000001",
    "token_key_id": 1,
    "policy_revision": "test-1",
    "seal": bytes(8),
    "result_due_at": "2026-03-02T08:05Z",
    "unknown_due_at": "2026-03-02T09:00Z",
    "evidence_due_at": "2026-03-02T12:00Z",
    "window_ends_at": "2026-03-02T16:00Z",
}
DELIVERY: dict[str, Any] = {
    "intent_id": 4,
    "batch_id": 1,
    "lane": 1,
    "channel": "mail",
    "status": "planned",
    "awaits": "dispatch",
    "due_at": "2026-03-02T08:00Z",
}
RETRY = {"source": "policy", "ruling": "retry", "due_at": "2026-03-02T08:10Z"}
FAULT = {"attempt": 1, "outcome": "transient", "scope": "recipient"}

Ledger = psycopg.Connection[tuple[Any, ...]]


def plan(connection: Ledger) -> None:
    """Plan four intents: 1 and 4 native, 2 shadow, 3 imported.

    Intent 1 has attempt 1 (row 1), its refusal (row 2) and the decision for attempt 2 (row 3); intent 4
    has a delivery.
    """
    connection.execute(POLICY)
    connection.execute(CONTENT, [bytes(32)])
    connection.execute(BATCH)
    for number, provenance in enumerate(("native", "shadow", "imported", "native"), start=1):
        key = bytes([number]) * 16
        insert(connection, "intent", INTENT, intent_key=key, provenance=provenance)
    insert(connection, "attempt", ATTEMPT)
    insert(connection, "observation", OBSERVATION, seq=2, identity="result/1", **FAULT)
    insert(connection, "observation", OBSERVATION, seq=3, identity="retry/2", authorises=2, **RETRY)
    insert(connection, "delivery", DELIVERY)


def insert(ledger: Ledger, table: str, values: dict[str, Any], **changes: Any) -> None:
    row = values | changes
    ledger.execute(
        SQL("INSERT INTO sendledger.{} ({}) VALUES ({})").format(
            Identifier(table),
            SQL(", ").join(map(Identifier, row)),
            SQL(", ").join([SQL("%s")] * len(row)),
        ),
        list(row.values()),
    )


def refused(ledger: Ledger, table: str, values: dict[str, Any], **changes: Any) -> tuple[str, str]:
    """Return the kind of constraint that refused an insert, and its columns or its name."""
    with pytest.raises(errors.IntegrityError) as refusal, ledger.transaction():
        insert(ledger, table, values, **changes)
    kind = type(refusal.value).__name__.removesuffix("Violation")
    return kind, refusal.value.diag.constraint_name or refusal.value.diag.column_name or ""
