"""Embedded servers of a test's own, made by copying one that was made once; and a school that plans."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from plan_kit import School, found_school
from sendledger.postgres import Embedded, StopResult


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a state directory that was started once and stopped."""
    server = Embedded(tmp_path_factory.mktemp("made-once") / "state", wait_max_s=60)
    server.ensure()
    assert server.stop() is StopResult.STOPPED
    (server.state_dir / "postgres" / "server.json").unlink()
    return server.state_dir


@pytest.fixture
def embedded_state(made_once: Path, tmp_path: Path) -> Path:
    """Return a state directory of this test's own, ready to be started."""
    return shutil.copytree(made_once, tmp_path / "state")


@pytest.fixture
def embedded(embedded_state: Path) -> Iterator[Embedded]:
    """Lend a server that is not running yet, and stop it afterwards."""
    yield from _lend(Embedded(embedded_state, wait_max_s=60))


@pytest.fixture
def never_started(tmp_path: Path) -> Iterator[Embedded]:
    """Lend a server that was never started, and stop it afterwards."""
    yield from _lend(Embedded(tmp_path / "never-started", wait_max_s=60))


@pytest.fixture
def school(
    tmp_path: Path,
    database: str,
    installation_id: UUID,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> School:
    """Return a school whose ledger is the test's own database."""
    monkeypatch.setenv("PLAN_TEST_DSN", database)
    return found_school(tmp_path, database, installation_id, capsys)


def _lend(server: Embedded) -> Iterator[Embedded]:
    yield server
    assert server.stop() is not StopResult.IN_USE
