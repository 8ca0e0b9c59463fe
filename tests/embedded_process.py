"""Other processes that use an embedded server, to be interrupted, killed and waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

USE = """
import sys
from pathlib import Path
from sendledger.postgres import Embedded

server = Embedded(Path(sys.argv[1]), wait_max_s=60)
print("begins", flush=True)
server.ensure()
print(server.status().pid, flush=True)
sys.stdin.read()
"""


@contextmanager
def user_of(state_dir: Path, script: str = USE) -> Iterator[subprocess.Popen[str]]:
    """Run *script* in a process group of its own, until the block ends."""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(state_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    """Return the next line the process prints; empty when it ends first."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def server_pid_of(process: subprocess.Popen[str]) -> int:
    """Wait until the process uses the server, and return the server's pid."""
    assert line_of(process) == "begins"
    return int(line_of(process))


def until(condition: Callable[[], bool], *, within_s: float = 30) -> None:
    """Wait for *condition*."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.01)


def kill_server(pid: int) -> None:
    """Kill a server and wait until the process is gone, or a zombie nobody has reaped yet."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: process_state(pid) in {None, "Z"})


def process_state(pid: int) -> str | None:
    """Return the kernel's letter for the state of *pid*, or None without such a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def run_as(uid: int, script: str, *arguments: Path, env: Mapping[str, str]) -> str:
    """Run *script* with the system's Python as the user *uid*, and return what it prints."""
    done = subprocess.run(
        ["/usr/bin/python3", "-c", script, *map(str, arguments)],
        user=uid,
        group=uid,
        extra_groups=[],
        env=env,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout + done.stderr
