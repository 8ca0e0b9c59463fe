"""Failure reports about queues in databases: db-01 to db-04 and db-06, as far as the ledger answers them.

The processes of db-01 and db-03 are killed and stopped for real where whole workers run.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

import ledger_rig
from findings import accepted, delivered, proposing
from fixed_policy import POLICY, TERMS
from ledger_rig import IDENTITY_KEY, LEASE, LONG_AGO, Rig
from lost_commit import cut_at_commit
from sendledger.journal.advance import Entry
from sendledger.journal.open import find_opened
from sendledger.ledger.findings import Finding
from sendledger.ledger.identity import keyed
from sendledger.ledger.words import Lane
from sendledger.metrics.meters import Meters
from sendledger.settings.model import WorkerSettings
from sendledger.store import deliveries, planning, views
from sendledger.store.database import Database, DatabaseAway
from sendledger.store.deliveries import ClaimRequest
from sendledger.store.new_intents import NewIntent
from sendledger.work.context import ChannelWork
from sendledger.work.opening import Answer, Openings
from sendledger.work.proposals import lost

HERE = Path(__file__).parent
ALTERNATIVES = yaml.safe_load((HERE / "alternatives.yaml").read_text())
CASES = {
    case["id"]: case
    for case in yaml.safe_load((HERE / "inputs" / "cases.yaml").read_text())["cases"]
    if case["kind"] == "queue_db"
}
MAIL = ChannelWork(name="mail", policy=POLICY, slots=4)
APPLIED = pytest.mark.parametrize("applied", [True, False], ids=["applied", "not-applied"])


@pytest.fixture
async def rig(shared_database: str) -> AsyncIterator[Rig]:
    async with ledger_rig.lend(shared_database) as rig:
        yield rig
        assert await rig.verify() == []


class Expected:
    """The answers a case wants; each is asked for, or answered in another way for a stated reason."""

    def __init__(self, name: str) -> None:
        self._wanted: dict[str, Any] = CASES[name]["expected"]
        self._other_ways: dict[str, Any] = ALTERNATIVES.get(name, {})
        self._why = " ".join([CASES[name]["why"], *map(str, self._wanted.values())])
        self._asked: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self._asked.add(key)
        return self._wanted[key]

    def check(self) -> None:
        """Raise unless every key was asked for or is answered in another way that the case allows."""
        assert self._asked | set(self._other_ways) == set(self._wanted)
        assert all(way["because"] in self._why for way in self._other_ways.values())


@contextmanager
def expected_of(name: str) -> Iterator[Expected]:
    """Lend what a case expects, and see that nothing of it was passed over."""
    expected = Expected(name)
    yield expected
    expected.check()


def scenario(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((HERE / "inputs" / CASES[name]["input"]).read_text())
    return found


async def sweep(rig: Rig) -> None:
    """Do what recovery does when leases have ended."""
    async with rig.database.connection() as connection:
        await deliveries.free_expired_claims(connection, lease=timedelta(0), rows_max=1000)
        found = await deliveries.find_lost_attempts(connection, lease=timedelta(0), rows_max=1000)
    await rig.recorder.record([Entry(intent_id=i, propose=lost) for i, _ in found])


async def statuses(rig: Rig) -> Counter[str]:
    async with rig.database.connection() as connection:
        counts = await views.count_batches(connection, batch="spring")
    return Counter({count.status: count.rows for count in counts})


# --- db-01 -----------------------------------------------------------------------------------


async def test_db_01_progress_is_a_row_and_nobody_is_missing_after_a_kill(rig: Rig) -> None:
    batch, in_flight = scenario("db-01")["batch"], scenario("db-01")["workers"]
    await rig.plan(batch)
    submitted: Counter[int] = Counter()

    async def work(rows: int, *, killed_with: int = 0) -> int:
        claims = await rig.claim(rows)
        opened = claims[:17] if killed_with else claims
        await rig.open(*(rig.opening(row, token) for row, token in opened))
        submitted.update(row.intent_id for row, _ in opened)
        done = opened[: len(opened) - killed_with]
        await rig.recorder.record(
            [Entry(intent_id=row.intent_id, propose=proposing(accepted(1))) for row, _ in done]
        )
        return len(claims)

    await work(50, killed_with=in_flight)
    with expected_of("db-01") as expected:
        after = expected["after_restart"]
        unfinished = await statuses(rig)
        assert after["batch_status_before_all_done"] == "not finished"
        assert unfinished["planned"] > 0

        await rig.expire_leases()
        await sweep(rig)
        while await work(50):
            pass
        ended = await statuses(rig)

        reached = ended["submitted"] + ended["ambiguous"]
        assert reached == after["recipients_submitted_plus_ambiguous"]
        assert batch - len(submitted) == after["recipients_missing"]
        twice = [i for i, times in submitted.items() if times > 1]
        assert len(twice) == after["recipients_with_two_submissions"]
        assert expected["max_ambiguous"].endswith(f"(<= workers = {in_flight})")
        assert ended["ambiguous"] == in_flight


# --- db-02 -----------------------------------------------------------------------------------


async def test_db_02_rescue_needs_no_row_of_the_worker(rig: Rig) -> None:
    ids = await rig.plan(3)
    claims = await rig.claim(3)
    opened = await rig.open(*(rig.opening(row, token) for row, token in claims[:2]))
    await rig.run("DELETE FROM sendledger.worker")
    await rig.expire_leases()
    await sweep(rig)
    with expected_of("db-02") as expected:
        open_rows = await rig.rows("SELECT FROM sendledger.delivery WHERE awaits = 'result'")
        assert len(open_rows) == expected["attempts_without_result_older_than_lease"]
        becomes = {i: "ambiguous" if i in opened else "planned" for i in ids}
        assert {i: (await rig.stands(i))[0] for i in ids} == becomes
        assert expected["each_becomes"] == "ambiguous (attempt opened) or planned (not opened)"
        [(row, _)] = await rig.claim(3)
        assert row.intent_id not in opened
        worker = WorkerSettings()
        assert worker.lease + worker.sweep <= timedelta(seconds=expected["within_s"])


# --- db-03 -----------------------------------------------------------------------------------


async def test_db_03_a_worker_that_slept_before_it_opened_submits_nothing(rig: Rig) -> None:
    [intent_id] = await rig.plan()
    [(stale, stale_token)] = await rig.claim()
    await rig.expire_leases()
    await sweep(rig)
    [(row, token)] = await rig.claim()
    submissions = [
        await rig.open(rig.opening(stale, stale_token)),
        await rig.open(rig.opening(row, token)),
        await rig.open(rig.opening(stale, stale_token)),
    ]
    with expected_of("db-03") as expected:
        by_number = sum(intent_id in opened for opened in submissions)
        assert by_number == expected["submissions_per_attempt_number"]
        assert submissions[0] == submissions[2] == set()
        assert expected["stale_worker_submission"].startswith("prevented by re-checking the lease")
        await rig.expire_leases()
        await sweep(rig)
        assert expected["second_worker_action"] == "reconcile, not resend"
        assert await rig.stands(intent_id) == ("ambiguous", "evidence")
        assert await rig.claim() == []


async def test_db_03_a_worker_that_slept_after_the_dot_is_heard_under_its_own_number(
    rig: Rig,
) -> None:
    [intent_id] = await rig.opened()
    await rig.expire_leases()
    await sweep(rig)
    await rig.record(intent_id, accepted(1))
    with expected_of("db-03") as expected:
        heard = [(row.rule, row.attempt) for row in await rig.observations(intent_id)]
        assert heard == [("lease.expired", 1), ("default.2yz", 1)]
        assert (
            "recorded as observation of its own attempt number"
            in (expected["stale_worker_submission"])
        )
        assert len(await rig.attempts(intent_id)) == expected["submissions_per_attempt_number"]
        assert expected["second_worker_action"] == "reconcile, not resend"
        assert await rig.stands(intent_id) == ("submitted", "evidence")


# --- db-04 -----------------------------------------------------------------------------------


@asynccontextmanager
async def running(*loops: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run *loops* meanwhile."""
    tasks = [asyncio.ensure_future(loop()) for loop in loops]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@APPLIED
async def test_db_04_an_opening_is_read_again_and_never_doubled(
    rig: Rig, shared_database: str, applied: bool
) -> None:
    await rig.plan()
    [(row, token)] = await rig.claim()
    opening = rig.opening(row, token)
    async with cut_at_commit(shared_database, applied=applied) as database:
        openings = Openings(database, MAIL, TERMS, Meters(["mail"]))
        async with running(openings.groups.run):
            answer = await openings.groups.add(opening)
    with expected_of("db-04") as expected:
        assert expected["error_shown"] is False
        assert answer is (Answer.OPENED if applied else Answer.REFUSED)
        assert "re-read by client-generated" in expected["unknown_commit_resolution"]
        found = await find_opened(rig.database, [opening])
        assert found == ({row.intent_id} if applied else set())
        assert await doubled_attempts(rig) == expected["duplicate_attempt_rows"]
        submissions = len(await rig.attempts(row.intent_id))
        assert submissions == int(applied) <= expected["submissions_max"]


async def doubled_attempts(rig: Rig) -> int:
    return len(
        await rig.rows(
            "SELECT FROM sendledger.attempt GROUP BY intent_id, number HAVING count(*) > 1"
        )
    )


@APPLIED
@pytest.mark.parametrize("finding", [accepted(1), delivered(1)], ids=["result", "callback"])
async def test_db_04_evidence_is_recorded_once_and_nobody_sees_an_error(
    rig: Rig, shared_database: str, finding: Finding, applied: bool
) -> None:
    [intent_id] = await rig.opened()
    async with cut_at_commit(shared_database, applied=applied) as database:
        recorder = replace(rig.recorder, database=database)
        async with ledger_rig.recording(recorder) as recording:
            entry = Entry(intent_id=intent_id, propose=proposing(finding))
            await recording.result(intent_id, 1, finding, lambda: entry)
    assert await rig.rules(intent_id) == ["default.2yz"]
    assert (await rig.delivery(intent_id))["seq"] == 2


@APPLIED
async def test_db_04_an_intent_is_created_once(
    rig: Rig, shared_database: str, applied: bool
) -> None:
    header = await rig.batch()
    person = NewIntent(
        intent_key=keyed(IDENTITY_KEY, "db-04"),
        recipient_fingerprint=bytes(16),
        destination_fingerprint=bytes(16),
        content_digest=bytes(16),
        recipient_id="person-1",
        destination="person-1@example.test",
        variables="{}",
    )

    async def plan(database: Database) -> set[bytes]:
        async with database.transaction() as connection:
            return await planning.add_intents(connection, header, [person], eligible_at=LONG_AGO)

    async with cut_at_commit(shared_database, applied=applied) as database:
        with pytest.raises(DatabaseAway):
            await plan(database)
        assert await plan(database) == (set() if applied else {person.intent_key})
    assert len(await rig.rows("SELECT FROM sendledger.delivery")) == 1


# --- db-06 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("hostile", [False, True], ids=["plain", "hostile-planner"])
async def test_db_06_a_claim_takes_exactly_what_it_was_asked_for(rig: Rig, hostile: bool) -> None:
    await rig.plan(1000)
    asked = 1
    request = ClaimRequest(
        channel="mail",
        lane=Lane.BULK,
        claim_token=uuid4(),
        claim_max=asked,
        lease=LEASE,
    )
    async with rig.database.connection() as connection:
        for setting in scenario("db-06")["session_settings"] if hostile else ():
            await connection.execute(f"SET {setting.replace('=', ' = ')}".encode())
        rows = await deliveries.claim_deliveries(connection, request)
        await connection.execute(b"RESET ALL")
    with expected_of("db-06") as expected:
        assert expected["rows_claimed_max"] == "= batch size under every plan"
        claimed = await rig.rows("SELECT FROM sendledger.delivery WHERE claim_token IS NOT NULL")
        assert len(rows) == len(claimed) == asked
