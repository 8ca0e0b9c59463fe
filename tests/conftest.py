"""A real server for the session, and a fresh migrated database for each test that asks for one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from servers import NEWEST, VERSIONS, Servers

# Whoever runs the tests has a width; what they look at is printed for a pipe, which has none.
os.environ.pop("COLUMNS", None)

TEMPLATE_LOCK = 7_301
ON_EVERY_SERVER = {
    "test_claims", "test_kept_plans", "test_limits", "test_openings", "test_plan_command",
    "test_plan_conflicts", "test_plan_ledger", "test_postgres_versions", "test_record", "test_recover",
    "test_schema", "test_statements", "test_verify",
}  # fmt: skip
"""The modules whose tests are run with the newest server and with the oldest one that is promised."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test of those modules that needs a server once with each."""
    if metafunc.module.__name__.rpartition(".")[2] in ON_EVERY_SERVER:  # noqa: SIM102
        if "postgres_dsn" in metafunc.fixturenames:
            metafunc.parametrize("postgres_dsn", VERSIONS, indirect=True, scope="session")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the crash matrix: a line of each test that recorded one."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.getreports(kind)]
    lines = [told for report in reports for name, told in report.user_properties if name == "crash"]
    if lines:
        terminalreporter.section(f"crash matrix: {len(lines)} crashes and stops")
        terminalreporter.write("".join(f"{line}\n" for line in sorted(map(str, lines))))


@pytest.fixture(scope="session")
def session_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def run_id(request: pytest.FixtureRequest) -> str:
    """Return a word that all workers of this run share, and no other run."""
    worker = getattr(request.config, "workerinput", {})
    return str(worker.get("testrunuid", uuid4().hex))


@pytest.fixture(scope="session")
def installation_id(run_id: str) -> UUID:
    """Return the identity every test database is bound to."""
    return UUID(hex=run_id[:32])


@pytest.fixture(scope="session")
def servers(session_dir: Path) -> Iterator[Servers]:
    """Lend the servers that all workers of this run share."""
    servers = Servers(session_dir)
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def postgres_dsn(request: pytest.FixtureRequest, servers: Servers) -> str:
    """Return the URL of a server to make databases in: the newest, or the one a test is run with."""
    return servers.dsn(getattr(request, "param", NEWEST))


@pytest.fixture(scope="session")
def template(postgres_dsn: str, run_id: str, installation_id: UUID) -> str:
    """Return the name of a migrated database to clone; the first worker makes it."""
    from sendledger.store.migrate import migrate  # noqa: PLC0415 - only tests with a schema need it

    name = f"template_{run_id}"
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute("SELECT pg_advisory_lock(%s)", [TEMPLATE_LOCK])
        if not admin.execute("SELECT FROM pg_database WHERE datname = %s", [name]).rowcount:
            # Under another name until it is whole: a failed migration is never cloned.
            fresh = f"{name}_fresh"
            admin.execute(_about(fresh, "DROP DATABASE IF EXISTS {} WITH (FORCE)"))
            admin.execute(_about(fresh, "CREATE DATABASE {}"))
            migrate(_in_database(postgres_dsn, fresh), installation_id=installation_id)
            admin.execute(_about(fresh, "ALTER DATABASE {} RENAME TO {}", name))
    return name


@pytest.fixture
def database(postgres_dsn: str, template: str) -> Iterator[str]:
    """Lend the URL of a migrated database of this test's own."""
    yield from _lend_database(postgres_dsn, template)


@pytest.fixture(scope="module")
def shared_database(postgres_dsn: str, template: str) -> Iterator[str]:
    """Lend the URL of a migrated database to tests of one module that leave nothing behind."""
    yield from _lend_database(postgres_dsn, template)


def _lend_database(postgres_dsn: str, template: str) -> Iterator[str]:
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute(_about(name, "CREATE DATABASE {} TEMPLATE {} STRATEGY wal_log", template))
    yield _in_database(postgres_dsn, name)
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute(_about(name, "DROP DATABASE {} WITH (FORCE)"))


def _about(database: str, statement: str, *others: str) -> sql.Composed:
    return sql.SQL(statement).format(*map(sql.Identifier, (database, *others)))


def _in_database(dsn: str, name: str) -> str:
    return urlsplit(dsn)._replace(path=f"/{name}").geturl()
