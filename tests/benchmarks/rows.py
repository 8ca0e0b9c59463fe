"""Rows by the thousand, made inside the database: valid in every column, planned as `sendledger plan` would."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psycopg
from psycopg.sql import SQL, Identifier

from benchmarks.lines import Line, say
from benchmarks.stage import EMPTY, Stage

ACCOUNT = """
SELECT count(*), extract(EPOCH FROM max(received_at) - %(began_at)s::timestamptz)::float8,
    (SELECT count(*) FROM sendledger.attempt), count(DISTINCT intent_id)
FROM sendledger.observation WHERE outcome = 'accepted'
"""

CONTENT = """
INSERT INTO sendledger.content (template_revision, parts, settings)
VALUES (sha256('bench'), '{"text": "hello {{name}}"}', '{}')
ON CONFLICT DO NOTHING
"""

BATCH = """
INSERT INTO sendledger.batch (
    content_id, authorized_at, lane, report, channel, content_revision, purpose, authorization_id,
    authorized_by, scope_keys
)
SELECT content_id, now(), %(lane)s, %(report)s, 'noop', '1', 'bench', 'A-1', 'bench',
    ARRAY['all', 'channel:noop', 'sender:noop/office', 'purpose:bench', 'batch:' || %(report)s || '/1/noop']
FROM sendledger.content
RETURNING batch_id
"""

INTENTS = """
WITH i AS (
    INSERT INTO sendledger.intent (
        batch_id, planned_at, eligible_at, intent_key, recipient_fingerprint, destination_fingerprint,
        content_digest
    )
    SELECT %(batch_id)s, now() - %(age)s::interval, now() - %(age)s::interval, k.key, k.key, k.key, k.key
    FROM generate_series(%(first)s + 1, %(first)s + %(rows)s) AS g
    CROSS JOIN LATERAL (SELECT decode(md5(%(report)s || '/' || g), 'hex') AS key) AS k
    RETURNING intent_id, eligible_at
),
s AS (
    INSERT INTO sendledger.recipient_secret (intent_id, recipient_id, destination, variables)
    SELECT intent_id, 'R' || intent_id, 'r' || intent_id || '@example.test', '{"name": "reader"}' FROM i
)
"""

DUE = (
    INTENTS
    + """
INSERT INTO sendledger.delivery (intent_id, batch_id, channel, lane, status, awaits, due_at, wake_at)
SELECT intent_id, %(batch_id)s, 'noop', %(lane)s, 'planned', 'dispatch', eligible_at, eligible_at FROM i
"""
)

HELD = (
    INTENTS
    + """
, o AS (
    INSERT INTO sendledger.observation (
        intent_id, seq, received_at, due_at, source, ruling, rule, identity, cause, policy_revision, seal
    )
    SELECT intent_id, 1, eligible_at, eligible_at, 'policy', 'hold', 'policy.paused', 'hold/0',
        'batch:' || %(report)s || '/1/noop', 'bench', '\\x0000000000000000'
    FROM i
)
INSERT INTO sendledger.delivery (intent_id, batch_id, channel, lane, seq, status, awaits, due_at)
SELECT intent_id, %(batch_id)s, 'noop', %(lane)s, 1, 'planned', 'release',
    eligible_at + intent_id * interval '1 microsecond'
FROM i
"""
)

SETTLED = (
    INTENTS
    + """
, a AS (
    INSERT INTO sendledger.attempt (
        intent_id, opened_at, result_due_at, unknown_due_at, evidence_due_at, window_ends_at,
        claim_token, seq, number, token_key_id, policy_revision, seal
    )
    SELECT intent_id, eligible_at, eligible_at, eligible_at, eligible_at, eligible_at,
        '00000000-0000-0000-0000-000000000000', 1, 1, 1, 'bench', '\\x0000000000000000'
    FROM i
),
o AS (
    INSERT INTO sendledger.observation (
        intent_id, seq, received_at, attempt, source, outcome, ruling, rule, identity, stage, reply_code,
        policy_revision, seal
    )
    SELECT i.intent_id, w.seq, i.eligible_at, 1, w.source, w.outcome, w.ruling, w.rule, w.identity,
        w.stage, w.reply_code, 'bench', '\\x0000000000000000'
    FROM i
    CROSS JOIN (VALUES
        (2, 'channel', 'accepted', NULL, 'default.2yz', 'result/1', 'dot', 250),
        (3, 'policy', NULL, 'close', 'evidence.window-closed', 'window/1', NULL, NULL)
    ) AS w (seq, source, outcome, ruling, rule, identity, stage, reply_code)
)
INSERT INTO sendledger.delivery (
    intent_id, batch_id, channel, lane, seq, because, attempt_count, spent, status
)
SELECT intent_id, %(batch_id)s, 'noop', %(lane)s, 3, 2, 1, 1, 'submitted' FROM i
"""
)

KINDS = {"due": DUE, "held": HELD, "settled": SETTLED}
CHUNK_ROWS = 100_000
LOAD_S_MAX = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A batch *report* of so many *rows* of one *kind*: due, held by a pause of it, or settled.

    *age* is how long ago they were planned, as an interval; *lane* 1 is bulk, 0 transactional.
    """

    report: str
    rows: int
    kind: str = "due"
    lane: int = 1
    age: str = "0s"


def load(connection: psycopg.Connection, wanted: Load) -> None:
    """Load a batch; foreign keys are true by construction, so their triggers are spared."""
    connection.execute(CONTENT)
    found = connection.execute(BATCH, {"lane": wanted.lane, "report": wanted.report}).fetchone()
    assert found is not None
    connection.execute("SET session_replication_role = replica")
    for first in range(0, wanted.rows, CHUNK_ROWS):
        connection.execute(
            KINDS[wanted.kind],
            {
                "batch_id": found[0],
                "report": wanted.report,
                "lane": wanted.lane,
                "age": wanted.age,
                "rows": min(CHUNK_ROWS, wanted.rows - first),
                "first": first,
            },
        )
    connection.execute("RESET session_replication_role")


def template(stage: Stage, kind: str, count: int) -> str:
    """Return the name of a database with *count* rows of *kind*, loaded now if there is none.

    Autovacuum leaves its tables alone, so they stay as loading left them: never analysed.
    """
    name = f"bench_{kind}_{count}"
    if stage.has(name):
        return name
    stage.drop("bench_loading")
    stage.create("bench_loading", template=EMPTY)
    began = time.monotonic()
    with stage.connect("bench_loading") as connection:
        _autovacuum(connection, on=False)
        load(connection, Load(report=kind, rows=count, kind=kind, age="10 minutes"))
    stage.rename("bench_loading", name)
    say(
        Line(
            bench=f"load.{kind}",
            value=time.monotonic() - began,
            unit="s",
            must=f"value < {LOAD_S_MAX}",
            note=f"{count} rows by SQL",
        )
    )
    return name


def autovacuum(connection: psycopg.Connection) -> None:
    """Let autovacuum have the tables of a template's copy, as in production."""
    _autovacuum(connection, on=True)


def _autovacuum(connection: psycopg.Connection, *, on: bool) -> None:
    found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'sendledger'")
    how = "RESET (autovacuum_enabled)" if on else "SET (autovacuum_enabled = false)"
    for (table,) in found.fetchall():
        connection.execute(SQL("ALTER TABLE {} " + how).format(Identifier("sendledger", table)))


def settle(connection: psycopg.Connection) -> None:
    """Vacuum and analyse what was loaded; a table that is still empty stays unknown to the planner."""
    loaded = ["content", "batch", "intent", "recipient_secret", "delivery"]
    connection.execute("VACUUM ANALYZE " + ", ".join(f"sendledger.{table}" for table in loaded))


def accounted_s(stage: Stage, database: str, *, count: int, began_at: str) -> float:
    """Return in how many seconds *count* rows were done, each with one attempt and one acceptance."""
    with stage.connect(database) as connection:
        found = connection.execute(ACCOUNT, {"began_at": began_at}).fetchone()
    assert found is not None
    results, seconds, attempts, intents = found
    if not results == attempts == intents == count:
        raise AssertionError(
            f"{count} rows, but {attempts} attempts and {results} results of {intents}"
        )
    return float(seconds)
