"""The embedded server after a crash: no pid is trusted, nothing committed is lost."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import psycopg
import pytest

from embedded_process import kill_server, line_of, process_state, server_pid_of, user_of
from sendledger.postgres import Embedded, PostgresError, StopResult

KILL_AND_LEAVE_A_ZOMBIE = """
import ctypes, os, signal, sys
from pathlib import Path
from sendledger.postgres import Embedded

PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
server = Embedded(Path(sys.argv[1]), wait_max_s=60)
server.ensure()
pid = server.status().pid
os.kill(pid, signal.SIGKILL)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
print(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0], flush=True)
print(server.status().pid, flush=True)
server.ensure()
print(pid, server.status().pid, flush=True)
"""


def killed(server: Embedded) -> int:
    """Kill a running server and return the pid it had."""
    pid = server.status().pid
    assert pid is not None
    kill_server(pid)
    return pid


def test_a_killed_server_comes_back_with_every_committed_row(embedded: Embedded) -> None:
    with psycopg.connect(embedded.ensure()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 10000) AS value")
    before = killed(embedded)
    with psycopg.connect(embedded.ensure()) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (10_000,)
    assert embedded.status().pid != before
    assert "automatic recovery" in (embedded.state_dir / "postgres" / "server.log").read_text(
        "utf-8"
    )


def test_a_server_killed_with_its_starter_comes_back(embedded: Embedded) -> None:
    with user_of(embedded.state_dir) as starter:
        pid = server_pid_of(starter)
        starter.kill()
        kill_server(pid)
    embedded.ensure()
    assert embedded.status().pid not in {None, pid}


def test_a_zombie_server_is_not_taken_for_a_living_one(embedded: Embedded) -> None:
    with user_of(embedded.state_dir, KILL_AND_LEAVE_A_ZOMBIE) as process:
        assert line_of(process) == "Z"
        assert line_of(process) == "None"
        before, after = line_of(process).split()
    assert before != after


def test_a_pid_that_now_belongs_to_somebody_else_is_not_taken_for_the_server(
    embedded: Embedded,
) -> None:
    """PostgreSQL itself refuses to start while the pid of its stale pid file lives."""
    embedded.ensure()
    killed(embedded)
    pid_file = embedded.state_dir / "postgres" / "data" / "postmaster.pid"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as stranger:
        lines = pid_file.read_text("ascii").splitlines(keepends=True)
        pid_file.write_text("".join([f"{stranger.pid}\n", *lines[1:]]), "ascii")
        embedded.ensure()
        assert embedded.status().pid != stranger.pid
        assert embedded.stop() is StopResult.STOPPED
        assert stranger.poll() is None


def test_a_stale_pid_file_without_a_server_stops_nobody(embedded: Embedded) -> None:
    embedded.ensure()
    killed(embedded)
    pid_file = embedded.state_dir / "postgres" / "data" / "postmaster.pid"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as stranger:
        pid_file.write_text(f"{stranger.pid}\n", "ascii")
        assert embedded.stop() is StopResult.NOT_RUNNING
        assert stranger.poll() is None


def test_no_second_server_starts_beside_a_child_of_the_first(embedded: Embedded) -> None:
    """A stopped backend cannot notice that its server died; two servers would share its memory."""
    with psycopg.connect(embedded.ensure()) as client:
        backend = client.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        killed(embedded)
        impatient = Embedded(embedded.state_dir, wait_max_s=0.5)
        with pytest.raises(PostgresError, match="a server is alive but has not answered"):
            impatient.ensure()
        os.kill(backend, signal.SIGCONT)
        embedded.ensure()
        assert process_state(backend) in {None, "Z"}


def test_a_crash_leaves_no_shared_memory_behind(embedded: Embedded) -> None:
    segments = Path("/proc/sysvipc/shm")
    if not segments.exists():
        pytest.skip("this system does not list its shared memory")
    embedded.ensure()
    server = killed(embedded)
    embedded.ensure()
    assert embedded.stop() is StopResult.STOPPED
    creators = {int(line.split()[4]) for line in segments.read_text("ascii").splitlines()[1:]}
    assert server not in creators


def test_an_interrupted_write_of_the_port_changes_nothing(embedded: Embedded) -> None:
    url = embedded.ensure()
    embedded.stop()
    (embedded.state_dir / "postgres" / "server.json").write_text("{", "utf-8")
    assert embedded.ensure().split(":")[0] == url.split(":")[0]
    assert embedded.status().running
