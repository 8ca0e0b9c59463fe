"""Planning from an application: its own connection, its own transaction, and nothing behind its back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row

from plan_kit import NOTHING, School, write_keys
from sendledger.journal.plan import CHUNK_ROWS
from sendledger.planning import (
    Authorization,
    Batch,
    BatchFault,
    DatabaseRefused,
    PlanConflict,
    Planned,
    Planner,
    Recipient,
    SchemaError,
    read_batch,
)

PAGE = Path(__file__).parents[2] / "docs" / "planning.md"

BATCH = Batch(
    report="spring-reports",
    content_revision="1",
    channel="email",
    purpose="school-reports",
    authorization=Authorization(
        id="AUTH-1", by="head of school", at=datetime(2026, 3, 2, 9, tzinfo=UTC)
    ),
    parts={"subject": "Report", "text": "{{name}}{{#grades}} {{subject}}: {{mark}}{{/grades}}"},
)

AsyncConnection = psycopg.AsyncConnection[Any]


@pytest.fixture
def planner(school: School) -> Planner:
    return Planner.load(school.folder / "sendledger.yaml")


@pytest.fixture
async def connection(school: School) -> AsyncIterator[AsyncConnection]:
    opened = await psycopg.AsyncConnection.connect(school.dsn)
    async with opened:
        await opened.execute("CREATE TABLE public.marks (pupil text)")
        await opened.commit()
        yield opened


def pupils(*numbers: int, name: str = "Ann") -> list[Recipient]:
    return [
        Recipient(
            id=f"s{number}",
            destination=f"p{number}@home.test",
            variables={"name": name, "grades": [{"subject": "Art", "mark": number}]},
        )
        for number in numbers
    ]


async def write_mark(connection: AsyncConnection) -> None:
    await connection.execute("INSERT INTO public.marks VALUES ('s1')")


def both(school: School) -> tuple[int, int]:
    """Return how many intents and how many of the caller's own rows there are for everybody to see."""
    ((found),) = school.select(
        "SELECT (SELECT count(*) FROM sendledger.intent), (SELECT count(*) FROM public.marks)"
    )
    return (found[0], found[1])


async def test_the_rows_appear_with_the_callers_own(
    school: School, planner: Planner, connection: AsyncConnection
) -> None:
    async with connection.transaction():
        await write_mark(connection)
        planned = await planner.plan(connection, BATCH, pupils(1, 2))
        assert both(school) == (0, 0)
    assert both(school) == (2, 1)
    assert planned == Planned(added=2, known=0, repeated=0, rejects=())


async def test_the_rows_go_away_with_the_callers_own(
    school: School, planner: Planner, connection: AsyncConnection
) -> None:
    async with connection.transaction(force_rollback=True):
        await write_mark(connection)
        await planner.plan(connection, BATCH, pupils(1, 2))
    assert both(school) == (0, 0)
    assert school.counts() == NOTHING


async def test_a_connection_without_autocommit_is_committed_by_its_caller_only(
    school: School, planner: Planner, connection: AsyncConnection
) -> None:
    await planner.plan(connection, BATCH, pupils(1))
    await write_mark(connection)
    assert both(school) == (0, 0)
    await connection.rollback()
    assert both(school) == (0, 0)
    await planner.plan(connection, BATCH, pupils(1))
    await write_mark(connection)
    await connection.commit()
    assert both(school) == (1, 1)


async def test_in_autocommit_and_in_no_transaction_a_plan_is_one_of_its_own(
    school: School, planner: Planner, connection: AsyncConnection
) -> None:
    await connection.set_autocommit(True)
    planned = await planner.plan(connection, BATCH, pupils(1, 2))
    assert (planned.added, both(school)) == (2, (2, 0))
    with pytest.raises(PlanConflict):
        await planner.plan(connection, BATCH, [*pupils(3), *pupils(1, name="Bo")])
    assert both(school) == (2, 0)


@pytest.mark.parametrize("factory", [dict_row, namedtuple_row])
async def test_the_callers_connection_may_be_set_up_as_they_like(
    school: School, planner: Planner, connection: AsyncConnection, factory: Any
) -> None:
    connection.row_factory = factory
    connection.cursor_factory = psycopg.AsyncRawCursor
    connection.prepare_threshold = 0
    await connection.execute("SET search_path = nowhere")
    await connection.execute("SET TimeZone = 'Pacific/Auckland'")
    batch = replace(BATCH, not_before=datetime(2026, 4, 1, 8, tzinfo=UTC))
    for added in (1, 0, 0, 0, 0, 0, 0):
        planned = await planner.plan(connection, batch, pupils(1))
        assert (planned.added, planned.known) == (added, 1 - added)
    await connection.commit()
    assert both(school) == (1, 0)


async def test_a_reject_holds_nobody_else_and_names_place_and_field(
    planner: Planner, connection: AsyncConnection
) -> None:
    bad = [
        Recipient(id="s2", destination="nobody"),
        Recipient(id="s3", destination="p@home.test", variables={"name": " "}),
        Recipient(id="s4", destination="p@home.test", variables={"name": "A", "grades": {1j}}),
        Recipient(id="s5", destination="p@home.test", variables={"name": "A", "grades": ["\0"]}),
        Recipient(
            id="s6", destination="p@home.test", variables={"name": "A", "grades": [float("nan")]}
        ),
        Recipient(
            id="s7", destination="p@home.test", variables={"name": "A", "grades": ["\ud800"]}
        ),
    ]
    planned = await planner.plan(connection, BATCH, [*pupils(1), *bad, *pupils(8)])
    assert planned.added == 2
    assert [(reject.line, reject.field, reject.reason) for reject in planned.rejects] == [
        (2, "recipients.destination", "invalid_address"),
        (3, "variables.name", "the value is empty"),
        (
            4,
            "variables.grades",
            "the value is a set; expected text, numbers, lists or mappings of them",
        ),
        (5, "variables.grades", "the value holds a NUL character"),
        (6, "variables.grades", "the value is no finite number"),
        (7, "variables.grades", "the value holds half a character pair"),
    ]
    assert "home.test" not in repr((bad, planned))


async def test_after_a_conflict_the_transaction_goes_on_without_a_trace_of_it(
    school: School, planner: Planner, connection: AsyncConnection
) -> None:
    await planner.plan(connection, BATCH, pupils(1))
    with pytest.raises(PlanConflict) as caught:
        await planner.plan(connection, BATCH, [*pupils(*range(2, 9)), *pupils(1, name="Bo")])
    assert [str(conflict) for conflict in caught.value.conflicts] == ["variables.name (line 8)"]
    await write_mark(connection)
    await connection.commit()
    assert both(school) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"channel": "sms"}, "channel: no such channel is configured; configured: email"),
        ({"report": " "}, "report: the text is empty"),
        ({"purpose": "a\nb"}, "purpose: the text holds a control character"),
        ({"content_revision": "x" * 201}, "content_revision: expected at most 200 characters"),
        (
            {"parts": {"subject": "S", "text": "{{{a}}}"}},
            "content.text: line 1, column 1 of the text",
        ),
        ({"parts": {"subject": "a\nb", "text": "x"}}, "content: the subject holds a line break"),
        ({"settings": {"from": "x"}}, "content: found from; email knows"),
        ({"not_before": datetime.fromisoformat("2026-03-02")}, "not_before: has no zone"),
        (
            {
                "not_before": datetime(2999, 1, 2, tzinfo=UTC),
                "not_after": datetime(2999, 1, 1, tzinfo=UTC),
            },
            "not_after: must be later than not_before",
        ),
        ({"not_after": datetime(2020, 1, 1, tzinfo=UTC)}, "not_after: has passed"),
        (
            {"authorization": Authorization(id="", by="x", at=datetime(2026, 1, 1, tzinfo=UTC))},
            "authorization.id: the text is empty",
        ),
    ],
)
async def test_a_fault_of_the_batch_is_an_exception_of_its_own(
    school: School,
    planner: Planner,
    connection: AsyncConnection,
    changes: dict[str, Any],
    sentence: str,
) -> None:
    with pytest.raises(BatchFault) as caught:
        await planner.plan(connection, replace(BATCH, **changes), pupils(1))
    assert str(caught.value).startswith(sentence)
    await connection.commit()
    assert school.counts() == NOTHING


async def test_what_passes_while_the_caller_waits_is_told_by_the_databases_clock(
    school: School, planner: Planner, connection: AsyncConnection
) -> None:
    """A window that ends between the beginning of the transaction and now is no broken constraint."""
    await connection.execute("SELECT 1")
    ((now,),) = school.select("SELECT clock_timestamp()")
    with pytest.raises(BatchFault, match="not_after: has passed"):
        await planner.plan(connection, replace(BATCH, not_after=now), pupils(1))
    planned = await planner.plan(
        connection, replace(BATCH, not_after=now + timedelta(days=1)), pupils(1)
    )
    assert planned.added == 1


async def test_recipients_may_come_from_a_cursor_of_the_same_connection(
    school: School, planner: Planner, connection: AsyncConnection
) -> None:
    async def people() -> AsyncIterator[Recipient]:
        async with connection.cursor("people") as cursor:
            await cursor.execute(f"SELECT n FROM generate_series(1, {CHUNK_ROWS + 500}) AS n")
            async for (number,) in cursor:
                yield pupils(number)[0]

    planned = await planner.plan(connection, BATCH, people())
    await connection.commit()
    assert (planned.added, both(school)[0]) == (CHUNK_ROWS + 500, CHUNK_ROWS + 500)


async def test_what_the_recipients_raise_leaves_nothing_and_a_connection_that_works(
    school: School, planner: Planner, connection: AsyncConnection
) -> None:
    def people() -> Iterator[Recipient]:
        yield from pupils(*range(CHUNK_ROWS + 10))
        raise LookupError("the caller's own")

    with pytest.raises(LookupError, match="the caller's own"):
        await planner.plan(connection, BATCH, people())
    await write_mark(connection)
    await connection.commit()
    assert both(school) == (0, 1)


async def test_a_cancelled_plan_leaves_nothing_and_a_connection_that_works(
    school: School, planner: Planner, connection: AsyncConnection
) -> None:
    stored = asyncio.Event()

    async def people() -> AsyncIterator[Recipient]:
        for person in pupils(*range(CHUNK_ROWS + 100)):
            yield person
        stored.set()
        await asyncio.Event().wait()

    planning = asyncio.create_task(planner.plan(connection, BATCH, people()))
    await asyncio.wait_for(stored.wait(), 30)
    planning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await planning
    await write_mark(connection)
    await connection.commit()
    assert both(school) == (0, 1)


async def test_others_get_their_turn_while_a_plan_is_made(
    planner: Planner, connection: AsyncConnection
) -> None:
    planning = asyncio.create_task(planner.plan(connection, BATCH, pupils(*range(2000))))
    turns = 0
    while not planning.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await planning).added == 2000
    assert turns > 2000 / 50


async def test_the_rights_in_the_documentation_are_enough(
    planner: Planner, connection: AsyncConnection
) -> None:
    """Whoever has them plans, and is told of what was planned before."""
    named = re.findall(r"^GRANT .*?;$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) == 4
    async with connection.transaction(force_rollback=True):
        await connection.execute("CREATE ROLE school_app")
        for grant in named:
            await connection.execute(grant.encode())
        await connection.execute("SET LOCAL ROLE school_app")
        assert (await planner.plan(connection, BATCH, pupils(1, 2))).added == 2
        assert (await planner.plan(connection, BATCH, pupils(2))).known == 1


async def test_a_database_of_another_installation_is_refused(
    school: School, connection: AsyncConnection
) -> None:
    (school.folder / "state/keys.json").unlink()
    (school.folder / "state").rmdir()
    write_keys(school.folder / "state/keys.json", school.select("SELECT gen_random_uuid()")[0][0])
    other = Planner.load(school.folder / "sendledger.yaml")
    with pytest.raises(DatabaseRefused, match="another installation"):
        await other.plan(connection, BATCH, pupils(1))


async def test_a_database_without_a_ledger_or_with_an_older_one_is_refused(
    planner: Planner, connection: AsyncConnection
) -> None:
    async with connection.transaction(force_rollback=True):
        await connection.execute("UPDATE public.sendledger_schema_version SET version_num = '0000'")
        with pytest.raises(SchemaError, match="at schema 0000"):
            await planner.plan(connection, BATCH, pupils(1))
    async with connection.transaction(force_rollback=True):
        await connection.execute("DROP TABLE public.sendledger_schema_version")
        with pytest.raises(DatabaseRefused, match="holds no ledger"):
            await planner.plan(connection, BATCH, pupils(1))
        await write_mark(connection)


async def test_a_batch_file_and_the_command_speak_of_the_same_batch(
    school: School, planner: Planner, connection: AsyncConnection
) -> None:
    batch = read_batch(school.folder / "batch.yaml")
    person = Recipient(id="s1", destination="p1@home.test", variables={"name": "A", "grade": "B"})
    await planner.plan(connection, batch, [person])
    await connection.commit()
    school.recipients.write_text(
        "student_id,first_name,guardian_email,grade\ns1,A,p1@home.test,B\n"
    )
    assert (await asyncio.to_thread(school.plan)).out.startswith("planned 0, already planned 1")


@pytest.mark.usefixtures("connection")
async def test_the_example_in_the_documentation_works(school: School) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (source,) = [block for block in blocks if "Planner.load" in block]
    names: dict[str, Any] = {"CONFIG": school.folder / "sendledger.yaml", "DSN": school.dsn}
    source = source.replace('"sendledger.yaml"', "CONFIG").replace('os.environ["DSN"]', "DSN")
    exec(compile(source, str(PAGE), "exec"), names)
    await names["close_term"]("spring")
    assert both(school) == (1, 1)
