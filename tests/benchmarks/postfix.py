"""Postfix's own test programs: ``smtp-sink`` takes everything and keeps nothing, ``smtp-source`` sends in C."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from debian_tools import debian_program

SOURCE_S_MAX = 300
LISTEN_S_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """A running ``smtp-sink``: where it listens, and the time of the processor it has used."""

    port: int
    pid: int

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def sink() -> Iterator[Sink]:
    """Run a sink on a free loopback port; it offers pipelining."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # As root it would not run without being told as whom.
    user = ["-u", "root"] if os.geteuid() == 0 else []
    command = [str(_program("smtp-sink")), *user, f"127.0.0.1:{port}", "200"]
    with subprocess.Popen(command, env=_environment()) as process:
        try:
            _wait_for(port)
            yield Sink(port=port, pid=process.pid)
        finally:
            process.kill()


def source(port: int, *, messages: int, sessions: int, size_bytes: int) -> float:
    """Let ``smtp-source`` send so many messages over sessions that it keeps; returns messages per second."""
    command = [str(_program("smtp-source")), "-d", "-s", str(sessions), "-m", str(messages)]
    command += ["-l", str(size_bytes), "-f", "a@source.example", "-t", "b@sink.example"]
    began = time.monotonic()
    subprocess.run(
        [*command, f"inet:127.0.0.1:{port}"], env=_environment(), check=True, timeout=SOURCE_S_MAX
    )
    return messages / (time.monotonic() - began)


def _program(name: str) -> Path:
    try:
        return debian_program(name, package="postfix")
    except pytest.skip.Exception as missing:
        raise SystemExit(str(missing)) from None


def _environment() -> dict[str, str]:
    """Return one in which unpacked programs find the libraries they were unpacked with."""
    libraries = _program("smtp-sink").parents[1] / "lib" / "postfix"
    return {**os.environ, "LD_LIBRARY_PATH": str(libraries)}


def _wait_for(port: int) -> None:
    until = time.monotonic() + LISTEN_S_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return
