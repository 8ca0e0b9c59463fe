"""Servers of both versions that are promised: the newest, of the wheel, and the oldest, a Debian package."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from debian_tools import debian_file
from sendledger.postgres import Embedded
from sendledger.postgres.cluster import TUNING, server_options
from sendledger.postgres.launch import Launcher, choose_launcher
from sendledger.postgres.layout import OWNER, Layout
from sendledger.postgres.locks import FileLock

NEWEST, OLDEST = "newest", "15"
VERSIONS = (NEWEST, OLDEST)
WAIT_S = 60.0
PAUSE_S = 0.05


@dataclass(slots=True)
class Servers:
    """The servers of a test run, below *folder*; each is started by the first who asks for it.

    All processes of the run use the same ones; whoever leaves last stops them. SENDLEDGER_TEST_DSN (a URL)
    names another server instead of the newest.
    """

    folder: Path
    _running: dict[str, tuple[Embedded, str]] = field(default_factory=dict)

    def dsn(self, version: str) -> str:
        """Return the URL of a server, running. Skips or fails where the oldest one is not installed."""
        given = os.environ.get("SENDLEDGER_TEST_DSN")
        if given and version == NEWEST:
            return given
        if version not in self._running:
            server = self._newest() if version == NEWEST else self._oldest()
            self._running[version] = (server, server.ensure())
        return self._running[version][1]

    def stop(self) -> None:
        """Leave, and stop what nobody else uses."""
        for server, _ in self._running.values():
            server.stop()

    def _newest(self) -> Embedded:
        return Embedded(self.folder / "state")

    def _oldest(self) -> Embedded:
        program = debian_file(
            f"usr/lib/postgresql/{OLDEST}/bin/postgres", package=f"postgresql-{OLDEST}"
        )
        layout = Layout(state_dir=self.folder / f"state-{OLDEST}")
        layout.prepare()
        with FileLock(self.folder / f"made-{OLDEST}.lock") as lock:
            _wait_for(lock)
            if not layout.data.exists():
                _make_cluster(layout, choose_launcher(program.parent, layout), keep=lock.fd)
        return Embedded(layout.state_dir, programs=program.parent)


def _wait_for(lock: FileLock) -> None:
    deadline = time.monotonic() + WAIT_S
    while not lock.try_exclusive():
        assert time.monotonic() < deadline, (
            "another process has been making the server for too long"
        )
        time.sleep(PAUSE_S)


def _make_cluster(layout: Layout, launcher: Launcher, *, keep: int) -> None:
    """Make a data directory as the product would, by an ``initdb`` that knows less."""
    layout.create_password()
    fresh, password = layout.staging / "data", layout.staging / "password"
    shutil.rmtree(layout.staging, ignore_errors=True)
    layout.staging.mkdir(mode=0o700)
    password.touch(mode=0o600)
    password.write_text(layout.password(), "utf-8")
    launcher.own(layout.staging)
    made = launcher.run(
        "initdb", f"--pgdata={fresh}", f"--username={OWNER}", f"--pwfile={password}",
        "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--data-checksums",
        "--no-instructions", keep=keep, stdin="",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    settings = "".join(f"{name} = '{value}'\n" for name, value in TUNING.items())
    with (fresh / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write(settings)
    options = server_options({"exit_on_error": "on"})
    single = ("postgres", "--single", "-D", str(fresh), *options, "postgres")
    made = launcher.run(*single, keep=keep, stdin=f"CREATE DATABASE {OWNER}\n")
    assert made.returncode == 0, made.stderr
    fresh.rename(layout.data)
