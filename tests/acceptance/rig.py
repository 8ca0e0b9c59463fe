"""What acceptance tests share: an installation in a folder, its commands as processes, and what its ledger holds.

site.plan({"s1": "pat@home.test"})              planned by the command itself
async with relay_of(site) as relay:             a capture server the settings point at
    async with working(site) as worker: ...     the loops of a worker, in this process
    ran = await site.run("work", "--drain")     or a process of its own
assert site.row("s1").status == "submitted"
"""

from __future__ import annotations

import asyncio
import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import yaml
from psycopg.rows import class_row, tuple_row

from acceptance.documents import batch_of, policy_of, settings_of
from sendledger.bootstrap import open_desk, workshop
from sendledger.cli import main
from sendledger.work.context import Workshop
from sendledger.work.worker import Drain, Worker
from sendledger_sandbox import CaptureServer

DEADLINE_S = 30.0
ENVIRONMENT = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "COLUMNS": "120"}
ROWS = b"""
SELECT
    s.recipient_id, i.intent_id, encode(i.intent_key, 'hex') AS key, d.status, d.awaits, d.due_at,
    d.attempt_count AS attempts, d.spent, d.claims, d.claim_token IS NOT NULL AS claimed,
    coalesce(o.rule, 'dispatch') AS rule, o.cause
FROM sendledger.intent AS i
JOIN sendledger.delivery AS d USING (intent_id)
JOIN sendledger.recipient_secret AS s USING (intent_id)
LEFT JOIN sendledger.observation AS o ON o.intent_id = i.intent_id AND o.seq = d.because
ORDER BY i.intent_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def all(self) -> str:
        """Both outputs, to search in."""
        return self.out + self.err


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One delivery, and the rule and cause of the step behind its status."""

    recipient_id: str
    intent_id: int
    key: str
    status: str
    awaits: str | None
    due_at: datetime | None
    attempts: int
    spent: int
    claims: int
    claimed: bool
    rule: str
    cause: str | None


@dataclass(slots=True, kw_only=True)
class Site:
    """An installation: ``settings``, ``policy`` and ``batch`` are written as they are when they are used."""

    folder: Path
    dsn: str = field(repr=False)
    settings: dict[str, Any] = field(default_factory=lambda: settings_of(1))
    policy: dict[str, Any] = field(default_factory=policy_of)
    batch: dict[str, Any] = field(default_factory=batch_of)

    @property
    def config(self) -> Path:
        """The settings file."""
        return self.folder / "sendledger.yaml"

    @property
    def relay(self) -> dict[str, Any]:
        """The settings of the email channel."""
        found: dict[str, Any] = self.settings["channels"]["email"]["settings"]
        return found

    def write(self) -> None:
        """Write settings, policy and batch."""
        for name, document in (
            ("sendledger", self.settings),
            ("policy", self.policy),
            ("batch", self.batch),
        ):
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
            (self.folder / f"{name}.yaml").write_text(text, encoding="utf-8")

    def write_recipients(
        self, people: Mapping[str, str], names: Mapping[str, str] | None = None
    ) -> None:
        """Write the recipients file: destinations by recipient id, and names where given."""
        with (self.folder / "recipients.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "email", "name"])
            for one, destination in people.items():
                writer.writerow([one, destination, (names or {}).get(one, f"Child {one}")])

    def plan(self, people: Mapping[str, str], names: Mapping[str, str] | None = None) -> None:
        """Plan the batch for *people* by the command, in this process and without a running loop."""
        self.write()
        self.write_recipients(people, names)
        ran = self.called(
            "plan", f"{self.folder}/batch.yaml", "-r", f"{self.folder}/recipients.csv"
        )
        assert ran.code == 0, ran.err

    async def planned(
        self, people: Mapping[str, str], names: Mapping[str, str] | None = None
    ) -> None:
        """As :meth:`plan`, from within a loop."""
        await asyncio.to_thread(self.plan, people, names)

    # --- commands --------------------------------------------------------------------------------

    def ask(self, *arguments: str, env: Mapping[str, str] | None = None) -> Ran:
        """Run a command to its end, in the folder of the installation."""
        done = subprocess.run(
            [sys.executable, "-m", "sendledger", *arguments],
            cwd=self.folder,
            env={**ENVIRONMENT, **(env or {})},
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )
        return Ran(code=done.returncode, out=done.stdout, err=done.stderr)

    async def run(self, *arguments: str) -> Ran:
        """As :meth:`ask`, from within a loop."""
        return await asyncio.to_thread(self.ask, *arguments)

    async def tell(self, *arguments: str) -> Ran:
        """As :meth:`run`, in this process: quicker, where the process itself is not in question."""
        return await asyncio.to_thread(self.called, *arguments)

    def called(self, *arguments: str) -> Ran:
        """Call a command in this process and without a running loop."""
        out, err = StringIO(), StringIO()
        code: object = 0
        with redirect_stdout(out), redirect_stderr(err):
            try:
                main([*arguments, "--config", str(self.config)])
            except SystemExit as ended:
                code = ended.code or 0
        assert isinstance(code, int)
        return Ran(code=code, out=out.getvalue(), err=err.getvalue())

    @asynccontextmanager
    async def process(
        self, *arguments: str, env: Mapping[str, str] | None = None
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a command of its own process until the block ends, by force if need be."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "sendledger",
            *arguments,
            cwd=self.folder,
            env={**ENVIRONMENT, **(env or {})},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()

    # --- the ledger ------------------------------------------------------------------------------

    def select(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return what *query* finds, or nothing when it is no query."""
        with (
            psycopg.connect(self.dsn, autocommit=True) as connection,
            connection.cursor(row_factory=tuple_row) as cursor,
        ):
            cursor.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def rows(self) -> list[LedgerRow]:
        """Return every delivery, as planned."""
        with (
            psycopg.connect(self.dsn, autocommit=True) as connection,
            connection.cursor(row_factory=class_row(LedgerRow)) as cursor,
        ):
            return cursor.execute(ROWS).fetchall()

    def row(self, recipient_id: str) -> LedgerRow:
        """Return the only delivery of a recipient."""
        [found] = [row for row in self.rows() if row.recipient_id == recipient_id]
        return found

    def count(self, table: str) -> int:
        """Return how many rows a table of the ledger has."""
        return int(self.select(f"SELECT count(*) FROM sendledger.{table}")[0][0])

    def tasks(self) -> list[tuple[str, str, str]]:
        """Return kind, cause and scope of the open operator tasks."""
        found = self.select(
            "SELECT kind, cause, scope_key FROM sendledger.task WHERE closed_at IS NULL ORDER BY task_id"
        )
        return [(kind, cause, scope) for kind, cause, scope in found]

    def paused(self) -> list[str]:
        """Return what is paused now."""
        found = self.select("SELECT scope_key FROM sendledger.pause WHERE ended_at IS NULL")
        return [row[0] for row in found]


def found_site(folder: Path, dsn: str, installation_id: UUID) -> Site:
    """Return an installation in *folder*, bound to the database at *dsn*."""
    site = Site(folder=folder, dsn=dsn)
    write_private(folder / "dsn", dsn)
    write_keys(folder / "state/keys.json", installation_id)
    site.write()
    return site


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


def write_keys(path: Path, installation_id: UUID) -> None:
    """Write a key ring that belongs to the test databases."""
    document = {
        "format": 1,
        "installation_id": str(installation_id),
        "identity": "11" * 32,
        "tokens": {"current": 1, "keys": {"1": "22" * 32}},
    }
    write_private(path, json.dumps(document))


@asynccontextmanager
async def relay_of(site: Site, **behaviour: Any) -> AsyncIterator[CaptureServer]:
    """Lend a capture server that the settings point at; it must have seen nothing against the protocol."""
    journal = site.folder / "accepted.jsonl"
    async with CaptureServer(journal=journal, keep=site.folder / "kept", **behaviour) as relay:
        site.relay["port"] = str(relay.port)
        site.write()
        yield relay
    assert relay.unexpected == []


def as_it_is(shop: Workshop) -> Workshop:
    """Change nothing."""
    return shop


@asynccontextmanager
async def working(
    site: Site, *, adapt: Callable[[Workshop], Workshop] = as_it_is
) -> AsyncIterator[Worker]:
    """Run the loops of a worker in this process until the block ends; then they end in order.

    *adapt* may change what the worker works with.
    """
    async with open_desk(site.config) as desk:
        worker = Worker(adapt(workshop(desk)))
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop.stop()
            await task


async def drained(site: Site, *, within_s: float = 0) -> Worker:
    """Work in this process until nothing is due, nor falls due within *within_s*."""
    async with open_desk(site.config) as desk:
        worker = Worker(workshop(desk))
        await worker.run(drain=Drain(within=timedelta(seconds=within_s)))
    return worker


async def until(condition: Callable[[], object], *, within_s: float = DEADLINE_S) -> None:
    """Wait for *condition*, which may look at the ledger."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        await asyncio.sleep(0.02)


async def ended(process: asyncio.subprocess.Process, *, within_s: float = DEADLINE_S) -> Ran:
    """Wait for the end of a process and return how it ended."""
    out, err = await asyncio.wait_for(process.communicate(), within_s)
    assert process.returncode is not None
    return Ran(code=process.returncode, out=out.decode(), err=err.decode())


def terminate(process: asyncio.subprocess.Process) -> None:
    """Ask a process to stop."""
    process.send_signal(signal.SIGTERM)


def people(count: int, outcome: str = "") -> dict[str, str]:
    """Return *count* recipients, each with the relay's *outcome* in the address."""
    return {f"s{n}": f"parent{n}{outcome}@home.test" for n in range(1, count + 1)}
