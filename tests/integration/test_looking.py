"""What the ledger says of look-ups: whose a reference is, and which attempts could be taken for each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

import ledger_rig
from findings import accepted, receipt, refused, unanswered
from ledger_rig import Rig
from plans import nodes_of, scans
from sendledger.ledger.findings import Finding
from sendledger.ledger.words import Source
from sendledger.store import looking
from sendledger.store.looking import Key
from sendledger.store.statements import statement

SLACK = timedelta(minutes=5)
MANY = """
WITH added AS (
    INSERT INTO sendledger.intent (batch_id, intent_key, recipient_fingerprint,
        destination_fingerprint, content_digest, eligible_at)
    SELECT (SELECT min(batch_id) FROM sendledger.batch), decode(lpad(to_hex(n), 32, '0'), 'hex'),
        decode(repeat('00', 16), 'hex'), decode(lpad(to_hex(n), 32, '0'), 'hex'),
        decode(repeat('00', 16), 'hex'), now()
    FROM generate_series(1, 20000) AS n
    RETURNING intent_id, batch_id
),
opened AS (
    INSERT INTO sendledger.attempt (intent_id, number, seq, result_due_at, unknown_due_at,
        evidence_due_at, window_ends_at, claim_token, token_key_id, policy_revision, seal)
    SELECT a.intent_id, 1, 1, now(), now(), now(), now(), gen_random_uuid(), 1, 'x',
        decode(repeat('00', 8), 'hex')
    FROM added AS a
),
told AS (
    INSERT INTO sendledger.observation (intent_id, seq, attempt, source, outcome, rule, identity,
        provider_reference, policy_revision, seal)
    SELECT a.intent_id, 2, 1, 'channel', 'accepted', 'x', 'result/1', a.intent_id::text, 'x',
        decode(repeat('00', 8), 'hex')
    FROM added AS a
)
INSERT INTO sendledger.delivery (intent_id, batch_id, channel, lane, status, awaits, due_at, seq)
SELECT a.intent_id, a.batch_id, 'mail', 1, 'submitted', 'evidence', now(), 2
FROM added AS a
"""


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig


def told(reference: str) -> Finding:
    return replace(receipt(accepted(1, reference=reference)), stage="receipt")


def found(reference: str) -> Finding:
    return replace(told(reference), source=Source.LOOK_UP, stage="look-up")


async def two_in_doubt(rig: Rig) -> tuple[int, int]:
    """Open an attempt each of two batches for the same person; both go unanswered."""
    [one] = await rig.opened(report="spring")
    [other] = await rig.opened(report="autumn")
    for intent_id in (one, other):
        await rig.record(intent_id, unanswered(1))
    return one, other


async def rivals(rig: Rig, intent_id: int, *, channel: str = "mail") -> list[Key]:
    async with rig.database.connection() as connection:
        pairs = await looking.find_rivals(connection, channel, [(intent_id, 1)], slack=SLACK)
    assert all(one == (intent_id, 1) for one, _ in pairs)
    return [other for _, other in pairs]


async def owners(rig: Rig, reference: str) -> set[Key]:
    async with rig.database.connection() as connection:
        return (await looking.find_references(connection, [reference])).get(reference, set())


async def known_by(rig: Rig, intent_id: int) -> str | None:
    async with rig.database.connection() as connection:
        [row] = await looking.load_asked(connection, [intent_id])
    return row.provider_reference


# --- references ------------------------------------------------------------------------------


async def test_a_reference_is_of_the_attempt_that_found_it_until_another_is_told_of_it(
    rig: Rig,
) -> None:
    one, other = await two_in_doubt(rig)
    await rig.record(one, found("letter-1"))
    assert await owners(rig, "letter-1") == {(one, 1)}
    await rig.record(other, told("letter-1"))
    assert await owners(rig, "letter-1") == {(other, 1)}


async def test_nobody_has_what_was_never_heard_of(rig: Rig) -> None:
    await two_in_doubt(rig)
    assert await owners(rig, "letter-1") == set()


async def test_an_attempt_is_known_by_what_it_was_told_rather_than_by_what_was_found(
    rig: Rig,
) -> None:
    one, _ = await two_in_doubt(rig)
    assert await known_by(rig, one) is None
    await rig.record(one, found("letter-1"))
    assert await known_by(rig, one) == "letter-1"
    await rig.record(one, told("letter-2"))
    assert await known_by(rig, one) == "letter-2"


async def test_one_adopts_at_a_time(rig: Rig) -> None:
    async with rig.database.transaction() as connection:
        await looking.hold_adoptions(connection)
        [free] = await rig.rows("SELECT pg_try_advisory_xact_lock(%s)", looking.ADOPTION_LOCK)
        assert not free["pg_try_advisory_xact_lock"]
    [free] = await rig.rows("SELECT pg_try_advisory_xact_lock(%s)", looking.ADOPTION_LOCK)
    assert free["pg_try_advisory_xact_lock"]


# --- rivals ----------------------------------------------------------------------------------


async def test_two_in_doubt_for_the_same_person_are_rivals(rig: Rig) -> None:
    one, other = await two_in_doubt(rig)
    assert await rivals(rig, one) == [(other, 1)]
    assert await rivals(rig, other) == [(one, 1)]


async def test_one_that_is_under_way_is_a_rival(rig: Rig) -> None:
    [one] = await rig.opened(report="spring")
    await rig.record(one, unanswered(1))
    [other] = await rig.opened(report="autumn")
    assert await rivals(rig, one) == [(other, 1)]


async def test_of_one_who_was_refused_only_the_next_attempt_is_a_rival(rig: Rig) -> None:
    [one] = await rig.opened(report="spring")
    await rig.record(one, unanswered(1))
    [other] = await rig.opened(report="autumn")
    await rig.record(other, refused(1))
    assert await rivals(rig, one) == []
    await rig.open_next(other)
    assert await rivals(rig, one) == [(other, 2)]


async def test_of_one_who_was_told_of_another_message_none_is_a_rival(rig: Rig) -> None:
    one, other = await two_in_doubt(rig)
    await rig.record(other, told("letter-2"))
    await rig.tamper(
        f"UPDATE sendledger.delivery SET status = 'ambiguous' WHERE intent_id = {other}"
    )
    assert await rivals(rig, one) == []


async def test_other_people_other_channels_and_other_times_are_no_rivals(rig: Rig) -> None:
    one, other = await two_in_doubt(rig)
    [somebody_else] = (await rig.plan(2, report="winter"))[1:]
    await rig.open_next(somebody_else)
    await rig.record(somebody_else, unanswered(1))
    assert await rivals(rig, one, channel="text") == []
    assert await rivals(rig, somebody_else) == []
    await rig.tamper(
        "UPDATE sendledger.attempt SET opened_at = opened_at + interval '11 minutes'"
        f" WHERE intent_id = {other}"
    )
    assert await rivals(rig, one) == []


async def test_an_earlier_attempt_of_the_same_intent_is_a_rival(rig: Rig) -> None:
    one, _ = await two_in_doubt(rig)
    await rig.tamper(
        "INSERT INTO sendledger.attempt (intent_id, number, seq, decision_seq, result_due_at,"
        " unknown_due_at, evidence_due_at, window_ends_at, claim_token, token_key_id, policy_revision,"
        " seal) SELECT intent_id, 2, 3, 2, result_due_at, unknown_due_at, evidence_due_at,"
        f" window_ends_at, claim_token, 1, 'x', seal FROM sendledger.attempt WHERE intent_id = {one}",
        f"DELETE FROM sendledger.delivery WHERE intent_id <> {one}",
    )
    assert await rivals(rig, one) == [(one, 2)]


@pytest.mark.parametrize("analysed", [False, True])
async def test_rivals_are_found_without_reading_a_table_from_end_to_end(
    database: str, *, analysed: bool
) -> None:
    async with ledger_rig.lend(database) as rig:
        one, _ = await two_in_doubt(rig)
        await rig.run(MANY)
        if analysed:
            await rig.run("ANALYZE")
    wanted = {"channel": "mail", "intent_id": f"{{{one}}}", "number": "{1}", "slack": SLACK}
    with psycopg.connect(database) as connection:
        nodes = nodes_of(connection, statement("find_rivals"), wanted)
    assert nodes
    for table in ("delivery", "intent", "attempt", "observation"):
        assert scans(nodes, table) == []
