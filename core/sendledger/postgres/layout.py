"""Where the embedded server keeps what: one private folder below the state directory."""

from __future__ import annotations

import json
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from sendledger.postgres.errors import PostgresError, explain

OWNER = "sendledger"
"""The role that owns the embedded server, and the name of its database."""

LOCAL_ADDRESS = "127.0.0.1"
LOG_MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The files of one embedded server. ``state_dir`` may hold other things; ``area`` is ours alone."""

    state_dir: Path

    @property
    def area(self) -> Path:
        """The folder that holds everything below."""
        return self.state_dir / "postgres"

    @property
    def data(self) -> Path:
        """The data directory; it exists only when it is complete."""
        return self.area / "data"

    @property
    def staging(self) -> Path:
        """Where a new data directory is made; a leftover is worthless."""
        return self.area / "new"

    @property
    def password_file(self) -> Path:
        """The password, in the form libpq reads (pgpass), outside the data directory."""
        return self.area / "pgpass"

    @property
    def port_file(self) -> Path:
        """The port of the running server, or of the last one."""
        return self.area / "server.json"

    @property
    def log(self) -> Path:
        """What the server says; never a row's values."""
        return self.area / "server.log"

    @property
    def starting_lock(self) -> Path:
        """Held alone by whoever starts or stops the server."""
        return self.area / "starting.lock"

    @property
    def alive_lock(self) -> Path:
        """Held by the server and each of its children, whatever their pids."""
        return self.area / "alive.lock"

    @property
    def users_lock(self) -> Path:
        """Shared by every process that uses the server."""
        return self.area / "users.lock"

    def prepare(self) -> None:
        """Create the private folders. Raises :class:`PostgresError` when they are not ours to write."""
        remedy = "make it writable for this user or choose another state directory"
        with explain(self.area, remedy):
            self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.area.mkdir(mode=0o700, exist_ok=True)
            owner = self.area.stat().st_uid
        if owner != os.geteuid():
            raise PostgresError(
                f"{self.area}: belongs to user id {owner}, but this process runs as user id"
                f" {os.geteuid()}; run Sendledger as that user"
            )
        if not os.access(self.area, os.W_OK | os.X_OK):
            raise PostgresError(f"{self.area}: not writable; {remedy}")

    def password(self) -> str:
        """Return the password. Raises :class:`PostgresError` when others can read it or it is gone."""
        with explain(self.password_file, "restore it from a backup of the state directory"):
            mode = stat.S_IMODE(self.password_file.stat().st_mode)
            content = self.password_file.read_text("utf-8")
        if mode & 0o077:
            raise PostgresError(
                f"{self.password_file}: other users can read the database password"
                f" (mode {mode:04o}); run chmod 600 {self.password_file}"
            )
        return content.strip().rpartition(":")[2]

    def create_password(self) -> None:
        """Write a random password, unless an interrupted first start already did."""
        if not self.password_file.exists():
            password = secrets.token_urlsafe(32)
            self._write(self.password_file, f"{LOCAL_ADDRESS}:*:*:{OWNER}:{password}\n")

    def remembered_port(self) -> int | None:
        """Return the port of the last start, or None before the first."""
        try:
            return int(json.loads(self.port_file.read_text("utf-8"))["port"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def remember_port(self, port: int) -> None:
        """Write down where the server is about to listen."""
        self._write(self.port_file, json.dumps({"port": port}) + "\n")

    def open_log(self) -> int:
        """Return a descriptor that appends to the log; an overlong log is put aside first."""
        if self.log.exists() and self.log.stat().st_size > LOG_MAX_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        return os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def log_end(self) -> int:
        """Return the size of the log in bytes."""
        return self.log.stat().st_size if self.log.exists() else 0

    def log_since(self, offset: int) -> str:
        """Return the gravest line the server wrote after *offset*, or the last one."""
        text = self.log.read_bytes()[offset:].decode("utf-8", "replace")
        # "the database system is starting up" is what our own knocking was told.
        lines = [line for line in text.splitlines() if line.strip() and "system is" not in line]
        grave = [line for line in lines if "FATAL:" in line or "PANIC:" in line]
        return (grave or lines or ["it said nothing"])[-1].strip()

    def _write(self, path: Path, content: str) -> None:
        """Put a private file in place whole, so that a crash leaves the old one or the new one."""
        fresh = path.with_suffix(".fresh")
        fresh.unlink(missing_ok=True)
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
