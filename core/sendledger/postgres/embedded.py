"""Attach to the embedded server, or start it; stop it when nobody uses it.

TCP on the loopback address, not a Unix socket: a socket path may have at most 107 bytes and a state
directory any length, and folders short enough, such as /tmp, are swept by cleaners. What guards the
port is SCRAM, which proves both sides: a stranger on our port never learns the password and cannot pass
for the server, and ``require_auth`` keeps libpq from answering to anything weaker.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from sendledger.postgres.cluster import (
    PROMISES,
    check_version,
    create_cluster,
    discard_stale_pid,
    server_options,
    server_pid,
)
from sendledger.postgres.errors import PostgresError, explain
from sendledger.postgres.launch import choose_launcher, plain_environment
from sendledger.postgres.layout import LOCAL_ADDRESS, OWNER, Layout
from sendledger.postgres.locks import FileLock, is_free
from sendledger.postgres.ports import choose_port
from sendledger.postgres.programs import wheel_programs

PAUSE_S = 0.03
STARTS_MAX = 3
PROBE_MAX_S = 30
USABLE = "see that this user can write there and that there is space"


class StopResult(StrEnum):
    """What came of asking the server to stop."""

    STOPPED = "stopped"
    IN_USE = "in use"
    NOT_RUNNING = "not running"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """What can be said of the server now. ``port`` and ``version`` are None unless it answers.

    ``pid`` without ``running`` is a server that is coming up, going down or hanging.
    """

    running: bool
    pid: int | None
    port: int | None
    version: str | None
    data_directory: Path
    used_by_others: bool


@dataclass(slots=True)
class Embedded:
    """The server of one state directory.

    ``port`` fixes the port for the next start; None lets Sendledger choose and remember one. A server
    that already runs is used where it listens. ``wait_max_s`` bounds every wait: for another starter,
    for recovery after a crash, for a stop.
    """

    state_dir: Path
    port: int | None = None
    programs: Path = field(default_factory=wheel_programs)
    wait_max_s: float = 300
    _use: FileLock | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.state_dir = self.state_dir.absolute()

    def ensure(self) -> str:
        """Return a URL of the running server, password included; start it when it does not run.

        May be called again at any time, for instance after the server was killed. From the first call
        until :meth:`release` or the end of the process no other process can stop the server.
        Raises :class:`PostgresError`.
        """
        with self._alone():
            held = self._use is not None
            self._hold()
            try:
                return self._url(self._attach_or_start())
            except BaseException:
                if not held:
                    self.release()
                raise

    def release(self) -> None:
        """Stop being a user of the server; it keeps running."""
        if self._use is not None:
            self._use.close()
            self._use = None

    def stop(self) -> StopResult:
        """End our own use, and stop the server cleanly unless somebody else uses it.

        Open connections are cut, their transactions rolled back (a fast shutdown). Raises
        :class:`PostgresError` when the server does not obey.
        """
        with self._alone():
            self.release()
            if not is_free(self._layout.users_lock):
                return StopResult.IN_USE
            if server_pid(self._layout) is None and is_free(self._layout.alive_lock):
                return StopResult.NOT_RUNNING
            self._interrupt()
            return StopResult.STOPPED

    def status(self) -> ServerStatus:
        """Return what is known, without waiting for anybody and without making anything."""
        with explain(self._layout.area, USABLE):
            exists = self._layout.area.exists()
            answer = self._answer() if exists else None
            return ServerStatus(
                running=answer is not None,
                pid=server_pid(self._layout),
                port=answer[0] if answer else None,
                version=answer[1] if answer else None,
                data_directory=self._layout.data,
                used_by_others=exists and self._used_by_others_now(),
            )

    def psql_command(self) -> tuple[list[str], Mapping[str, str]]:
        """Return the command and environment of a psql session; the password stays in its file."""
        with explain(self._layout.area, USABLE):
            port = self._layout.remembered_port()
        if port is None:
            raise PostgresError(
                f"{self._layout.area}: the embedded database was never started; start it"
            )
        self._layout.password()
        where = {"PGHOST": LOCAL_ADDRESS, "PGPORT": str(port), "PGUSER": OWNER, "PGDATABASE": OWNER}
        how = {"PGPASSFILE": str(self._layout.password_file), "PGREQUIREAUTH": "scram-sha-256"}
        return [str(self.programs / "psql")], {**plain_environment(), **where, **how}

    @property
    def _layout(self) -> Layout:
        return Layout(state_dir=self.state_dir)

    def _url(self, port: int) -> str:
        password = self._layout.password()
        return f"postgresql://{OWNER}:{password}@{LOCAL_ADDRESS}:{port}/{OWNER}?require_auth=scram-sha-256"

    # --- who may, and when ------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the only process that starts or stops this server."""
        self._layout.prepare()
        with explain(self._layout.area, USABLE), FileLock(self._layout.starting_lock) as lock:
            deadline = time.monotonic() + self.wait_max_s
            while not lock.try_exclusive():
                self._check(deadline, "another process has been starting or stopping the server")
                time.sleep(PAUSE_S)
            yield

    def _hold(self) -> None:
        if self._use is None:
            self._use = FileLock(self._layout.users_lock)
            self._use.share()

    def _others_use_it(self) -> bool:
        """Whether another process holds the server; call it alone, as our own hold is let go for it."""
        if self._use is None:
            return not is_free(self._layout.users_lock)
        others = not self._use.try_exclusive()
        self._use.share()
        return others

    def _used_by_others_now(self) -> bool:
        """As above, without waiting: whoever is starting or stopping the server is using it."""
        with FileLock(self._layout.starting_lock) as lock:
            return not lock.try_exclusive() or self._others_use_it()

    def _check(self, deadline: float, found: str) -> None:
        if time.monotonic() > deadline:
            raise PostgresError(
                f"{self._layout.area}: {found} for {self.wait_max_s:.0f} s;"
                f" look for its processes and at {self._layout.log}"
            )

    # --- starting ---------------------------------------------------------------------------

    def _attach_or_start(self) -> int:
        """Return the port once our server answers there.

        The lock that the server and its children hold says whether any of them lives; what answers
        says whether it is ready. No pid is asked, so zombies and reused pids change nothing.
        """
        deadline = time.monotonic() + self.wait_max_s
        log_from, starts = self._layout.log_end(), 0
        while (answer := self._answer()) is None:
            with FileLock(self._layout.alive_lock) as alive:
                if alive.try_exclusive():
                    self._refuse_after(starts, log_from)
                    self._start(alive)
                    starts += 1
            self._check(deadline, "a server is alive but has not answered")
            time.sleep(PAUSE_S)
        return answer[0]

    def _refuse_after(self, starts: int, log_from: int) -> None:
        if starts == STARTS_MAX:
            said = self._layout.log_since(log_from)
            raise PostgresError(f"PostgreSQL did not start: {said} (see {self._layout.log})")

    def _start(self, alive: FileLock) -> None:
        """Start the server, which takes over *alive*; its port is written down before."""
        layout = self._layout
        launcher = choose_launcher(self.programs, layout)
        port = choose_port(fixed=self.port, remembered=layout.remembered_port(), home=layout.data)
        if not layout.data.exists():
            create_cluster(layout, launcher, keep=alive.fd)
        check_version(layout, self.programs)
        layout.password()
        layout.remember_port(port)
        discard_stale_pid(layout)
        options = server_options(PROMISES | {"port": str(port)})
        log = layout.open_log()
        try:
            launcher.spawn("postgres", "-D", str(layout.data), *options, keep=alive.fd, log=log)
        finally:
            os.close(log)

    def _answer(self) -> tuple[int, str] | None:
        """Return port and version of our own server, or None when it does not answer.

        A stranger fails the mutual authentication; a server of a copy of our state directory, which
        knows the password, serves another data directory.
        """
        port = self._layout.remembered_port()
        if port is None or not self._layout.data.exists():
            return None
        question = "SELECT current_setting('server_version'), current_setting('data_directory')"
        version, _, directory = self._ask(question).partition("|")
        try:
            ours = Path(directory).samefile(self._layout.data)
        except OSError:
            return None
        return (port, version) if ours else None

    def _ask(self, query: str) -> str:
        """Return the single line psql prints for *query*, or nothing when it fails."""
        command, environment = self.psql_command()
        try:
            done = subprocess.run(  # noqa: S603 - our own program
                [
                    *command,
                    "--no-psqlrc",
                    "--no-password",
                    "-A",
                    "-t",
                    "-d",
                    "postgres",
                    "-c",
                    query,
                ],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=PROBE_MAX_S,
                env={**environment, "PGCONNECT_TIMEOUT": "3"},
            )
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout.rstrip("\n") if done.returncode == 0 else ""

    # --- stopping ---------------------------------------------------------------------------

    def _interrupt(self) -> None:
        """Ask for a fast shutdown and wait until the server and its children are gone."""
        deadline = time.monotonic() + self.wait_max_s
        asked: int | None = None
        while (pid := server_pid(self._layout)) or not is_free(self._layout.alive_lock):
            # A server that is only just starting shows its pid a moment later; once is enough.
            if pid is not None and pid != asked:
                os.kill(pid, signal.SIGINT)
                asked = pid
            self._check(deadline, "the server did not stop")
            time.sleep(PAUSE_S)
