"""Arrays that we write ourselves are read by Postgres as what they were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sendledger.store.array_text import bytes_array, text_array

quietly = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@pytest.fixture(scope="module")
def connection(postgres_dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_dsn, autocommit=True) as opened:
        yield opened


def read(connection: psycopg.Connection, array: str, kind: str) -> Any:
    row = connection.execute(f"SELECT %s::{kind} []".encode(), [array]).fetchone()
    assert row is not None
    return row[0]


@quietly
@given(items=st.lists(texts, max_size=5))
@example(items=["NULL", "null", "", " ", '"', "\\", '\\"', "{", "}", ",", "\n", "\\N", "ü", "{}"])
def test_texts_come_back_as_they_were(connection: psycopg.Connection, items: list[str]) -> None:
    assert read(connection, text_array(items), "text") == items


@quietly
@given(items=st.lists(st.one_of(st.none(), st.binary(min_size=8, max_size=8)), max_size=5))
def test_bytes_come_back_as_they_were(
    connection: psycopg.Connection, items: list[bytes | None]
) -> None:
    assert read(connection, bytes_array(items, item_bytes=8), "bytea") == items


def test_a_nul_would_shift_every_text_after_it_and_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        text_array(["a", "b\0c"])


@pytest.mark.parametrize("items", [[b"a"], [b"ab", b"a"], [b"abc"], [b"a", b"abc"]])
def test_bytes_of_another_length_would_shift_the_rest_and_are_refused(items: list[bytes]) -> None:
    with pytest.raises(ValueError, match="2 bytes"):
        bytes_array(items, item_bytes=2)
