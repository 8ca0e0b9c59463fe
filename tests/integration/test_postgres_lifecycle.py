"""The embedded server: attached to or started, shared by processes, stopped when nobody uses it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from pathlib import Path

import psycopg
import pytest

from embedded_process import line_of, server_pid_of, until, user_of
from sendledger.postgres import Embedded, PostgresError, StopResult
from sendledger.postgres.locks import FileLock


def test_the_server_is_durable_checked_and_authenticated(embedded: Embedded) -> None:
    url = embedded.ensure()
    names = ["fsync", "synchronous_commit", "data_checksums", "server_encoding", "listen_addresses"]
    with psycopg.connect(url) as connection:
        found = [connection.execute(f"SHOW {name}").fetchone() for name in names]
        methods = connection.execute(
            "SELECT DISTINCT auth_method FROM pg_hba_file_rules"
        ).fetchall()
    assert found == [("on",), ("on",), ("on",), ("UTF8",), ("127.0.0.1",)]
    assert methods == [("scram-sha-256",)]


def test_a_wrong_password_is_refused(embedded: Embedded) -> None:
    url = embedded.ensure()
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url, password="wrong").close()


def test_everything_but_the_url_keeps_the_password_to_itself(embedded: Embedded) -> None:
    embedded.ensure()
    area = embedded.state_dir / "postgres"
    password = (area / "pgpass").read_text("utf-8").strip().rpartition(":")[2]
    assert len(password) >= 32
    assert stat.S_IMODE((area / "pgpass").stat().st_mode) == 0o600
    assert password not in repr(embedded) + repr(embedded.psql_command()) + repr(embedded.status())
    assert password not in (area / "server.log").read_text("utf-8")
    assert not list((area / "data").rglob("pgpass"))


def test_ensure_attaches_to_the_server_that_runs(embedded: Embedded) -> None:
    url, pid = embedded.ensure(), embedded.status().pid
    assert embedded.ensure() == url
    with user_of(embedded.state_dir) as other:
        assert server_pid_of(other) == pid


def test_status_tells_what_runs_where(embedded: Embedded) -> None:
    before = embedded.status()
    assert (before.running, before.pid, before.used_by_others) == (False, None, False)
    embedded.ensure()
    running = embedded.status()
    assert running.running
    assert running.version is not None
    assert running.version.startswith("18.")
    assert running.data_directory == embedded.state_dir / "postgres" / "data"
    assert not running.used_by_others


def test_status_makes_nothing(tmp_path: Path) -> None:
    assert not Embedded(tmp_path / "none").status().running
    assert not (tmp_path / "none").exists()


def test_a_stopped_server_keeps_its_port_and_rows(embedded: Embedded) -> None:
    url = embedded.ensure()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
    assert embedded.stop() is StopResult.STOPPED
    assert not embedded.status().running
    assert embedded.stop() is StopResult.NOT_RUNNING
    assert embedded.ensure() == url
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT value FROM kept").fetchone() == (7,)


def test_stop_does_not_wait_for_idle_clients(embedded: Embedded) -> None:
    with psycopg.connect(embedded.ensure()) as client:
        assert embedded.stop() is StopResult.STOPPED
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")


def test_a_server_another_process_uses_is_not_stopped(embedded: Embedded) -> None:
    embedded.ensure()
    with user_of(embedded.state_dir) as other:
        server_pid_of(other)
        assert embedded.status().used_by_others
        assert embedded.stop() is StopResult.IN_USE
        assert embedded.status().running


def test_a_killed_user_no_longer_keeps_the_server(embedded: Embedded) -> None:
    with user_of(embedded.state_dir) as other:
        server_pid_of(other)
        other.kill()
        other.wait()
        assert embedded.stop() is StopResult.STOPPED


def test_a_released_server_keeps_running_for_the_next(embedded: Embedded) -> None:
    embedded.ensure()
    embedded.release()
    assert embedded.status().running
    assert Embedded(embedded.state_dir).stop() is StopResult.STOPPED


def test_the_server_outlives_the_kill_of_its_starter(embedded: Embedded) -> None:
    with user_of(embedded.state_dir) as starter:
        pid = server_pid_of(starter)
        starter.kill()
    embedded.ensure()
    assert embedded.status().pid == pid


def test_ctrl_c_does_not_reach_the_server(embedded: Embedded) -> None:
    with user_of(embedded.state_dir) as starter:
        pid = server_pid_of(starter)
        assert os.getsid(pid) != os.getsid(starter.pid)
        os.killpg(starter.pid, signal.SIGINT)
        assert starter.wait(30) != 0
    embedded.ensure()
    assert embedded.status().pid == pid


def test_starters_at_once_get_one_server(embedded: Embedded) -> None:
    place = embedded.state_dir
    with user_of(place) as one, user_of(place) as two, user_of(place) as three:
        assert len({server_pid_of(process) for process in (one, two, three)}) == 1


def test_starting_and_stopping_wait_for_one_another(embedded: Embedded) -> None:
    """Else a stop that found no user could cut off one that came a moment later."""
    impatient = Embedded(embedded.state_dir, wait_max_s=0.1)
    with FileLock(embedded.state_dir / "postgres" / "starting.lock") as lock:
        assert lock.try_exclusive()
        for act in (impatient.ensure, impatient.stop):
            with pytest.raises(PostgresError, match="another process has been starting"):
                act()
    assert not embedded.status().running


def test_a_first_start_killed_half_way_leaves_nothing_half_made(never_started: Embedded) -> None:
    staging = never_started.state_dir / "postgres" / "new" / "data"
    with user_of(never_started.state_dir) as starter:
        assert line_of(starter) == "begins"
        until(staging.exists)
        starter.kill()
    with psycopg.connect(never_started.ensure()) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("sendledger",)
    assert not staging.parent.exists()


def test_first_starts_at_once_make_one_server(never_started: Embedded) -> None:
    with user_of(never_started.state_dir) as one, user_of(never_started.state_dir) as two:
        assert server_pid_of(one) == server_pid_of(two)


def test_psql_runs_with_what_psql_command_gives(embedded: Embedded) -> None:
    embedded.ensure()
    command, environment = embedded.psql_command()
    done = subprocess.run(
        [*command, "-Atc", "SELECT current_user"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "sendledger\n"


def test_the_environment_does_not_steer_the_server(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGPASSFILE", "PGSERVICE", "PGOPTIONS"):
        monkeypatch.setenv(name, "/nowhere")
    embedded.ensure()
    assert embedded.status().running


def test_the_log_holds_no_value_of_a_row(embedded: Embedded) -> None:
    marker = "somebody@private.test"
    revealing = [
        f"INSERT INTO people VALUES ('{marker}')",
        f"SELECT '{marker}'::integer",
        f"SELECT no_such_column /* {marker} */",
        f"SELECT pg_terminate_backend(pg_backend_pid()) /* {marker} */",
    ]
    url = embedded.ensure()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE people (address text PRIMARY KEY)")
        connection.execute("INSERT INTO people VALUES (%s)", [marker])
    for statement in revealing:
        with psycopg.connect(url) as connection, pytest.raises(psycopg.Error):
            connection.execute(statement)
    assert embedded.stop() is StopResult.STOPPED
    log = (embedded.state_dir / "postgres" / "server.log").read_text("utf-8")
    assert "terminating connection" in log
    assert marker not in log
