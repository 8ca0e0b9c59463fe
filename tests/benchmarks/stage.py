"""Where benchmarks play: an embedded server, databases to clone, a configuration, and worker processes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from benchmarks.lines import Options
from plugins_for_tests import install
from sendledger.keys import KeyRing
from sendledger.planning import Planner
from sendledger.postgres import Embedded
from sendledger.store.migrate import migrate

TESTS = Path(__file__).resolve().parents[1]
CHECKOUT = TESTS.parent
PEERS = CHECKOUT / ".venv-bench" / "bin" / "python"
EMPTY = "bench_empty"
END_S = 60

SETTINGS = """\
database: {{dsn: {{$env: BENCH_DSN}}}}
state_dir: .
plugins: [policy]
channels:
  noop: {{plugin: noop, slots: {slots}, settings: {{}}}}
worker: {{claim_max: {claim_max}}}
"""


@dataclass(slots=True, kw_only=True)
class Stage:
    """A server for one run. What is made on it is dropped when its block ends."""

    folder: Path
    url: str
    server: Embedded
    _files: int = field(default=0, repr=False)

    def dsn(self, database: str) -> str:
        """Return the URL of *database*."""
        base, _, query = self.url.partition("?")
        return f"{base.rsplit('/', 1)[0]}/{database}?{query}"

    def connect(self, database: str) -> psycopg.Connection:
        """Connect to *database* in autocommit."""
        return psycopg.connect(self.dsn(database), autocommit=True)

    def has(self, database: str) -> bool:
        """Whether there is such a database."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            found = admin.execute("SELECT FROM pg_database WHERE datname = %s", [database])
            return found.fetchone() is not None

    def create(self, database: str, *, template: str = "template0") -> None:
        """Make *database* as a copy of *template*."""
        query = SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute(query.format(Identifier(database), Identifier(template)))

    def rename(self, database: str, name: str) -> None:
        """Give *database* another name."""
        query = SQL("ALTER DATABASE {} RENAME TO {}")
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute(query.format(Identifier(database), Identifier(name)))

    def drop(self, database: str) -> None:
        """Drop *database*, whoever is connected."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            query = SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            admin.execute(query.format(Identifier(database)))

    @contextmanager
    def lent(self, database: str, *, template: str = EMPTY) -> Iterator[str]:
        """Lend a copy of *template* as *database*; gives its URL."""
        self.drop(database)  # a run that was cut short may have left it
        self.create(database, template=template)
        try:
            yield self.dsn(database)
        finally:
            self.drop(database)

    def settings(self, *, slots: int) -> Path:
        """Write a configuration with so many slots; the database comes from BENCH_DSN."""
        file = self.folder / f"slots-{slots}.yaml"
        file.write_text(SETTINGS.format(slots=slots, claim_max=max(100, slots)), encoding="utf-8")
        return file

    def planner(self) -> Planner:
        """Return a planner on the no-op channel, for this process."""
        if str(self.folder) not in sys.path:
            sys.path.insert(0, str(self.folder))
        os.environ.setdefault("BENCH_DSN", self.url)
        return Planner.load(self.settings(slots=1))

    def environment(self, dsn: str) -> dict[str, str]:
        """Return the environment of a worker process on *dsn*: it finds the no-op channel."""
        given = os.environ.get("PYTHONPATH", "")
        path = os.pathsep.join(filter(None, (str(TESTS), str(self.folder), given)))
        return {**os.environ, "BENCH_DSN": dsn, "PYTHONPATH": path}

    def checkpoint(self) -> None:
        """Write out what is dirty, so that no side pays for what the other left."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute("CHECKPOINT")

    def cpu_s(self) -> float:
        """Return the CPU time that the server's processes have used, in seconds."""
        pid = self.server.status().pid
        assert pid is not None
        return process_cpu_s(pid, of_ended=True) + sum(
            process_cpu_s(child) for child in _children(pid)
        )


@contextmanager
def staged(options: Options) -> Iterator[Stage]:
    """Start a server, or use the one of ``options.state``; a server of our own is removed afterwards."""
    own = options.state is None
    state = Path(tempfile.mkdtemp(prefix="sendledger-bench-")) if own else options.state
    assert state is not None
    server = Embedded(state)
    folder = Path(tempfile.mkdtemp(prefix="sendledger-bench-"))
    try:
        stage = Stage(folder=folder, url=server.ensure(), server=server)
        install(folder, "bench-noop", noop="benchmarks.noop")
        _prepare(stage, state)
        yield stage
    finally:
        server.release()
        if own:
            server.stop()
            shutil.rmtree(state)
        shutil.rmtree(folder)


def _prepare(stage: Stage, state: Path) -> None:
    keys = KeyRing.load_or_create(state / "keys.json")
    shutil.copy2(state / "keys.json", stage.folder / "keys.json")
    if not stage.has(EMPTY):
        stage.create(EMPTY)
        migrate(stage.dsn(EMPTY), installation_id=keys.installation_id)


@dataclass(slots=True, kw_only=True)
class Child:
    """A process that tells what happens in it as JSON lines."""

    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def hear(self, event: str, *, within_s: float) -> dict[str, Any]:
        """Return the next *event*, passing over others. Raises when the process ends without it."""
        assert self.process.stdout is not None
        async with asyncio.timeout(within_s):
            while line := await self.process.stdout.readline():
                told: dict[str, Any] = json.loads(line)
                if told.get("event") == event:
                    return told
        raise ChildProcessError(f"the process ended without saying {event}")

    async def stop(self, *, within_s: float = END_S) -> dict[str, Any]:
        """Ask the worker to end in order; returns its report."""
        self.process.terminate()
        return await self.hear("done", within_s=within_s)


@asynccontextmanager
async def running(command: list[str], environment: Mapping[str, str]) -> AsyncIterator[Child]:
    """Run *command*; whatever happens it has ended when the block has."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        env=dict(environment),
        limit=2**26,
    )
    try:
        yield Child(process=process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def worker(
    stage: Stage, dsn: str, *options: str, slots: int = 50, config: Path | None = None
) -> AsyncIterator[Child]:
    """Run a worker process under *config*, or with the no-op channel and *slots* slots.

    See :mod:`benchmarks.worker`.
    """
    config = config or stage.settings(slots=slots)
    command = [sys.executable, "-m", "benchmarks.worker", str(config), *options]
    async with running(command, stage.environment(dsn)) as child:
        await child.hear("ready", within_s=END_S)
        yield child


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(child) for child in listed.split()]


def process_cpu_s(pid: int, *, of_ended: bool = False) -> float:
    """Return the CPU time of *pid*, with *of_ended* also that of its children that have ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    fields = stat.rpartition(")")[2].split()
    ticks = sum(int(number) for number in fields[11 : 15 if of_ended else 13])
    return ticks / os.sysconf("SC_CLK_TCK")
