"""Arrays and rows that we write ourselves are read by Postgres as what they were."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sendledger.store.array_text import bytes_array
from sendledger.store.copy_binary import (
    NO_FIELD,
    bigint_fields,
    bytes_fields,
    copy_rows,
    copy_stream,
    instant_field,
    smallint_field,
    text_fields,
)

TABLE = """CREATE TEMPORARY TABLE copied (
    place bigint GENERATED ALWAYS AS IDENTITY, n bigint, t text, b bytea, i timestamptz, s smallint,
    j json
)"""

quietly = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
whole_numbers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
keys = st.one_of(st.none(), st.binary(min_size=8, max_size=8))
naive = st.datetimes(datetime(1800, 1, 1), datetime(9000, 1, 1))  # noqa: DTZ001 - made aware below
instants = st.one_of(st.none(), naive.map(lambda instant: instant.replace(tzinfo=UTC)))


@pytest.fixture(scope="module")
def connection(postgres_dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_dsn, autocommit=True) as opened:
        yield opened


def read(connection: psycopg.Connection, array: str, kind: str) -> Any:
    row = connection.execute(f"SELECT %s::{kind} []".encode(), [array]).fetchone()
    assert row is not None
    return row[0]


@quietly
@given(items=st.lists(st.binary(min_size=8, max_size=8), max_size=5))
def test_bytes_come_back_as_they_were(connection: psycopg.Connection, items: list[bytes]) -> None:
    assert read(connection, bytes_array(items, item_bytes=8), "bytea") == items


@pytest.mark.parametrize("items", [[b"a"], [b"ab", b"a"], [b"abc"], [b"a", b"abc"]])
def test_bytes_of_another_length_would_shift_the_rest_and_are_refused(items: list[bytes]) -> None:
    for written in (bytes_array, bytes_fields):
        with pytest.raises(ValueError, match="2 bytes"):
            written(items, item_bytes=2)


@quietly
@given(rows=st.lists(st.tuples(whole_numbers, texts, keys), max_size=5), shared=instants)
@example(rows=[(-1, "NULL", None), (1, "\\N", bytes(8)), (0, "", None)], shared=None)
def test_rows_come_back_as_they_were(
    connection: psycopg.Connection,
    rows: list[tuple[int, str, bytes | None]],
    shared: datetime | None,
) -> None:
    content = copy_rows(
        bigint_fields([row[0] for row in rows]),
        text_fields([row[1] for row in rows]),
        bytes_fields([row[2] for row in rows], item_bytes=8),
        count=len(rows),
        constants=[instant_field(shared), smallint_field(-7), NO_FIELD],
    )
    with connection.transaction(force_rollback=True):
        connection.execute(TABLE)
        with connection.cursor().copy(
            "COPY copied (n, t, b, i, s, j) FROM STDIN (FORMAT binary, ENCODING 'UTF8')"
        ) as copy:
            copy.write(b"".join(copy_stream([content])))
        found = connection.execute("SELECT n, t, b, i, s, j FROM copied ORDER BY place")
        assert found.fetchall() == [(*row, shared, -7, None) for row in rows]


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        copy_rows(bigint_fields([1]), count=2)


def test_an_error_tells_the_line_and_quotes_nothing(connection: psycopg.Connection) -> None:
    """What is told goes into server logs, too: a line of the text form would stand there whole."""
    good = copy_rows(bigint_fields([1]), text_fields(["parent@home.test"]), count=1)
    another_width = b"\0\x09"
    header, rows, _ = copy_stream([good])
    with connection.transaction(force_rollback=True):
        connection.execute(TABLE)
        with (
            pytest.raises(psycopg.errors.BadCopyFileFormat) as refused,
            connection.transaction(),
            connection.cursor().copy("COPY copied (n, t) FROM STDIN (FORMAT binary)") as copy,
        ):
            copy.write(header + rows + another_width)
    told = f"{refused.value} {refused.value.diag.context}"
    assert "line 2" in told
    assert "home.test" not in told
