"""Planning as a function: in the caller's transaction, in chunks, and beside others who plan the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from plan_kit import write_keys
from sendledger.journal import met
from sendledger.journal.batch import Authorization, Batch, Entry, Reject, Row
from sendledger.journal.conflicts import PlanConflict
from sendledger.journal.intake import Intake
from sendledger.journal.plan import CHUNK_ROWS, PlanResult, plan
from sendledger.keys import KeyRing
from sendledger.plugin.host import PluginHost
from sendledger.store.database import Connection, Database
from smtp_kit import settings_for

BATCH = Batch(
    report="spring-reports",
    content_revision="1",
    channel="email",
    purpose="school-reports",
    authorization=Authorization(
        id="AUTH-1", by="head of school", at=datetime(2026, 3, 2, 9, tzinfo=UTC)
    ),
    parts={"subject": "Report", "text": "{{name}}"},
)


class Relay:
    """Where nobody will ever connect."""

    host = "127.0.0.1"
    port = 9


@pytest.fixture
def intake(tmp_path: Path, installation_id: UUID) -> Intake:
    host = PluginHost()
    host.load_plugin("smtp")
    host.build_channel("email", "smtp", settings_for(Relay()))
    host.seal()
    write_keys(tmp_path / "state/keys.json", installation_id)
    return Intake(BATCH, host.channel("email"), KeyRing.load(tmp_path / "state/keys.json"))


@pytest.fixture
async def ledger(database: str) -> AsyncIterator[Database]:
    async with Database(database) as opened:
        yield opened


def row(number: int, name: str = "Ann") -> Row:
    return Row(
        line=number,
        recipient_id=f"s{number}",
        destination=f"p{number}@home.test",
        variables={"name": name},
    )


async def run(
    connection: Connection, intake: Intake, entries: Iterator[Entry] | list[Row]
) -> PlanResult:
    rejects: list[Reject] = []
    result = await plan(connection, intake, entries, on_reject=rejects.append)
    assert len(rejects) == result.rejected
    return result


async def count(connection: Connection) -> int:
    cursor = await connection.execute("SELECT count(*) FROM sendledger.intent")
    found = await cursor.fetchone()
    assert found is not None
    return int(found[0])


async def test_what_the_caller_rolls_back_was_never_planned(
    ledger: Database, intake: Intake
) -> None:
    async with ledger.connection() as connection:
        async with connection.transaction(force_rollback=True):
            assert (await run(connection, intake, [row(1)])).added == 1
            assert await count(connection) == 1
        assert await count(connection) == 0


async def test_a_repeat_beyond_the_chunk_is_told_from_what_was_known_before(
    ledger: Database, intake: Intake
) -> None:
    async with ledger.transaction() as connection:
        assert (await run(connection, intake, [row(1)])).added == 1
    many = [row(number) for number in range(2, CHUNK_ROWS + 10)]
    async with ledger.transaction() as connection:
        result = await run(connection, intake, [*many, row(1), row(2), row(2)])
    assert result == PlanResult(added=len(many), known=1, repeated=2, rejected=0)


async def test_who_only_seems_to_be_a_repeat_is_planned_too(
    ledger: Database, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 256 marks for more rows than two chunks have, hardly a row is surely new."""
    monkeypatch.setattr(met, "PLACE_BYTES", 1)
    many = [row(number) for number in range(2 * CHUNK_ROWS + 10)]
    async with ledger.transaction() as connection:
        result = await run(connection, intake, [*many, row(1), row(CHUNK_ROWS), many[-1]])
        assert result == PlanResult(added=len(many), known=0, repeated=3, rejected=0)
        assert await count(connection) == len(many)


async def test_a_differing_repeat_beyond_the_chunk_is_a_conflict(
    ledger: Database, intake: Intake
) -> None:
    many = [row(number) for number in range(CHUNK_ROWS + 10)]
    with pytest.raises(PlanConflict) as caught:
        async with ledger.transaction() as connection:
            await run(connection, intake, [*many, row(0, name="Bo")._replace(line=9999)])
    (conflict,) = caught.value.conflicts
    assert (conflict.field, conflict.lines) == ("variables.name", (9999,))
    async with ledger.connection() as connection:
        assert await count(connection) == 0


async def test_a_conflict_with_an_erased_person_names_no_variable(
    ledger: Database, intake: Intake
) -> None:
    async with ledger.transaction() as connection:
        await run(connection, intake, [row(1), row(2)])
        await connection.execute("DELETE FROM sendledger.recipient_secret")
    async with ledger.transaction() as connection:
        assert (await run(connection, intake, [row(1)])).known == 1
        with pytest.raises(PlanConflict) as caught:
            await run(connection, intake, [row(2, name="Bo")])
    assert [conflict.field for conflict in caught.value.conflicts] == ["variables"]


async def test_two_who_plan_the_same_at_once_plan_it_once(ledger: Database, intake: Intake) -> None:
    async def once() -> PlanResult:
        async with ledger.transaction() as connection:
            return await run(connection, intake, [row(number) for number in range(200)])

    results = await asyncio.gather(once(), once(), once())
    assert sorted(result.added for result in results) == [0, 0, 200]
    assert sorted(result.known for result in results) == [0, 200, 200]


async def test_rows_that_were_rejected_before_are_passed_on_in_order(
    ledger: Database, intake: Intake
) -> None:
    ragged = Reject(line=2, field="", reason="ragged", remedy="mend it")
    bad = row(3)._replace(destination="nobody")
    rejects: list[Reject] = []
    entries: list[Entry] = [row(1), ragged, bad, row(4)]
    async with ledger.transaction() as connection:
        result = await plan(connection, intake, entries, on_reject=rejects.append)
    assert (result.added, result.rejected) == (2, 2)
    assert [reject.line for reject in rejects] == [2, 3]
    assert "home.test" not in repr(row(1))


async def test_a_row_is_eligible_at_once_and_waits_for_dispatch(
    ledger: Database, intake: Intake
) -> None:
    async with ledger.transaction() as connection:
        await run(connection, intake, [row(1)])
        cursor = await connection.execute(
            "SELECT d.status, d.awaits, d.lane, d.wake_at = i.eligible_at, i.eligible_at = now()"
            " FROM sendledger.delivery AS d JOIN sendledger.intent AS i USING (intent_id)"
        )
        assert await cursor.fetchall() == [("planned", "dispatch", 1, True, True)]


async def test_two_who_plan_again_in_opposite_orders_do_not_wait_for_each_other(
    ledger: Database, intake: Intake
) -> None:
    """More than a chunk each, of a batch that was there: each has rows that the other needs next."""
    many = [row(number) for number in range(1, CHUNK_ROWS + 500)]
    async with ledger.transaction() as connection:
        await run(connection, intake, [row(0)])

    async def once(rows: list[Row]) -> PlanResult:
        async with ledger.transaction() as connection:
            return await run(connection, intake, rows)

    results = await asyncio.gather(once(many), once(many[::-1]))
    assert sorted(result.added for result in results) == [0, len(many)]
    assert sorted(result.known for result in results) == [0, len(many)]


async def test_a_second_run_in_the_same_transaction_knows_what_the_first_planned(
    ledger: Database, intake: Intake
) -> None:
    async with ledger.transaction() as connection:
        await run(connection, intake, [row(1), row(2)])
        again = await run(connection, intake, [row(1), row(2), row(3), row(3)])
    assert again == PlanResult(added=1, known=2, repeated=1, rejected=0)
