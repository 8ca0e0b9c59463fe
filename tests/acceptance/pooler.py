"""PgBouncer in transaction mode before the server of a site: every transaction may meet another session."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg

from acceptance.rig import until
from debian_tools import debian_program

POOL_SIZE = 4
"""Fewer server sessions than the connections of two workers."""

SETTINGS = """
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 100
"""
UNPRIVILEGED = "nobody"


@asynccontextmanager
async def pooling(dsn: str) -> AsyncIterator[str]:
    """Run a pooler before the server of *dsn*, a URL; yields the same URL by way of it."""
    program = debian_program("pgbouncer", package="pgbouncer")
    found = urlsplit(dsn)
    listen = free_port()
    by_way = found._replace(netloc=f"{found.netloc.rpartition('@')[0]}@127.0.0.1:{listen}").geturl()
    # Not below pytest's folder: as root the pooler becomes another user, who cannot enter there.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_settings(folder, dsn, listen)
        pooler = await asyncio.create_subprocess_exec(
            program,
            *(["-u", UNPRIVILEGED] if os.geteuid() == 0 else []),
            folder / "pgbouncer.ini",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            await until(lambda: pooler.returncode is not None or answers(by_way))
            assert pooler.returncode is None, "the pooler did not start"
            yield by_way
        finally:
            if pooler.returncode is None:
                pooler.kill()
            await pooler.wait()


def write_settings(folder: Path, dsn: str, listen: int) -> None:
    """Write what the pooler is told: where it listens, which server it leads to, and whom it knows."""
    found = urlsplit(dsn)
    settings = SETTINGS.format(
        host=found.hostname, port=found.port, listen=listen, folder=folder, pool_size=POOL_SIZE
    )
    folder.chmod(0o755)
    (folder / "pgbouncer.ini").write_text(settings, encoding="utf-8")
    secret = f'"{found.username}" "{unquote(found.password or "")}"\n'
    (folder / "users").write_text(secret, encoding="utf-8")


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


def answers(dsn: str) -> bool:
    """Whether a server can be reached at *dsn*."""
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True
