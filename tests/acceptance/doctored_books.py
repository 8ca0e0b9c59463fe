"""Books to be doctored: a small ledger and journal in which everything is right, written by hand."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from acceptance.ledger_checker import violations

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
INSERT INTO sendledger.observation (intent_id, seq, source, rule, identity, attempt, outcome, scope, later,
    ruling, authorises, provider_reference, due_at, policy_revision, seal)
VALUES (%(id)s, %(seq)s, %(source)s, %(rule)s, coalesce(%(identity)s, %(seq)s::text), %(attempt)s,
    %(outcome)s, %(scope)s, %(later)s, %(ruling)s, %(authorises)s, %(provider_reference)s, now(), 'r1',
    decode(repeat('00', 8), 'hex'))
"""
OF_INTENTS = ("observation", "attempt", "delivery", "recipient_secret", "intent")
TABLES = (*OF_INTENTS, "batch", "content", "inbox", "quarantine")
NOT_SAID = (
    "identity", "attempt", "outcome", "scope", "ruling", "authorises", "provider_reference",
)  # fmt: skip
SAID: dict[str, Any] = {"source": "channel", "rule": "some.rule", "later": False}
SAID |= dict.fromkeys(NOT_SAID)


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


def begin_anew(books: Books) -> None:
    """Throw away what was there; a batch is left."""
    for table in TABLES:
        books.do(f"DELETE FROM sendledger.{table}")
    books.do(FOUND)


def keep(books: Books) -> None:
    """Write books in which everything is right, instead of what was there."""
    begin_anew(books)
    _submitted_at_once(books)
    _submitted_later(books)
    _failed(books)
    _ambiguous(books)


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
