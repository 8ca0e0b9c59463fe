"""Which schema a database has, asked without alembic."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from sendledger.store.database import DatabaseRefused
from sendledger.store.schema import head_revision, known_revisions, schema_revision


def test_the_revisions_are_those_that_alembic_knows() -> None:
    config = Config()
    config.set_main_option("script_location", str(files("sendledger_migrations")))
    script = ScriptDirectory.from_config(config)
    assert known_revisions() == [step.revision for step in script.walk_revisions()][::-1]
    assert head_revision() == script.get_current_head()


def test_no_command_loads_alembic_to_see_that_there_is_nothing_to_do() -> None:
    probe = "import sys, sendledger.cli.app; print({'alembic', 'sqlalchemy'} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


def test_a_role_without_privileges_is_told_what_it_lacks(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS role_without_privileges")
        connection.execute("CREATE ROLE role_without_privileges LOGIN PASSWORD 'for-a-test'")
    try:
        poor = psycopg.conninfo.make_conninfo(
            database, user="role_without_privileges", password="for-a-test"
        )
        with pytest.raises(DatabaseRefused, match="may not read public"):
            schema_revision(poor)
    finally:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DROP ROLE role_without_privileges")
