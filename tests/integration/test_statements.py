"""Every statement file is used once, plans on the migrated schema, and holds no stray per cent sign."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files
from pathlib import Path

import psycopg
import pytest

import sendledger
from sendledger.store.copy_binary import copy_stream
from sendledger.store.statements import statement

CORE = Path(sendledger.__file__).parent
NAMES = sorted(
    entry.name.removesuffix(".sql")
    for entry in files("sendledger.store").joinpath("sql").iterdir()
    if entry.name.endswith(".sql")
)
PARAMETER = re.compile(rb"%\((\w+)\)s")
COPY = re.compile(rb"^COPY ", re.MULTILINE)
USE = re.compile(r'^_[A-Z_]+ = statement\("(\w+)"\)$', re.MULTILINE)


def parameters_of(text: bytes) -> set[str]:
    return {name.decode() for name in PARAMETER.findall(text)}


def test_there_are_statements_to_look_at() -> None:
    assert "claim_deliveries" in NAMES


def test_every_statement_file_is_used_by_exactly_one_constant() -> None:
    used = Counter(
        name for path in CORE.rglob("*.py") for name in USE.findall(path.read_text("utf-8"))
    )
    assert used == Counter(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_holds_no_stray_per_cent_sign(name: str) -> None:
    assert b"%" not in PARAMETER.sub(b"", statement(name)).replace(b"%%", b"")


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_says_first_what_it_does(name: str) -> None:
    assert statement(name).startswith(b"-- ")


def test_every_statement_plans_on_the_migrated_schema(database: str) -> None:
    """With no search path, so that each table names its schema, and every parameter an untyped NULL."""
    failures = {}
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SET search_path = ''")
        for name in NAMES:
            text = statement(name)
            try:
                if COPY.search(text):
                    with connection.cursor().copy(text) as copy:
                        copy.write(b"".join(copy_stream([])))
                else:
                    connection.execute(b"EXPLAIN " + text, dict.fromkeys(parameters_of(text)))
            except psycopg.Error as error:
                failures[name] = str(error)
    assert failures == {}


def test_a_statement_that_was_not_shipped_stops_the_start() -> None:
    with pytest.raises(FileNotFoundError):
        statement("nothing_of_the_kind")
