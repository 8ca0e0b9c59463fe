"""Postfix: durable dispatch to a real relay that queues on disk, and every byte that arrives behind it.

Ours claims, writes, opens, hands over and records; Postfix queues each message and hands it on to the capture
server, which keeps it. smtp-source, in C and without a ledger, fills the same Postfix beside it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
import uvloop

from benchmarks import postfix
from benchmarks.bench_smtp import BODY_BYTES, plan
from benchmarks.lines import Line, Options, middle, progress, read_options, say
from benchmarks.stage import EMPTY, END_S, Stage, staged
from debian_tools import debian_file
from plugins_for_tests import install, keeper
from postfix_relay import PostfixRelay, postfix_relay
from sendledger.bootstrap import open_desk, workshop
from sendledger.logs import configure_logs
from sendledger.work.worker import Drain, Worker
from sendledger_sandbox import Accepted, read_journal

ROWS, QUICK_ROWS = 10_000, 1_000
SESSIONS = 50
CONNECTIONS_MAX = 10
ARRIVE_S = 600
PLANNED = "bench_postfix_planned"
DATABASE = "bench_postfix"
TRACE = re.compile(rb"(?:Received|Return-Path|Delivered-To):[^\r\n]*\r\n(?:[ \t][^\r\n]*\r\n)*")

SETTINGS = """\
database: {{dsn: {{$env: BENCH_DSN}}}}
state_dir: .
plugins: [policy, keeper]
channels:
  email:
    plugin: smtp
    slots: {sessions}
    settings:
      host: {host}
      port: {port}
      tls: none
      sender: reports@school.example
      sessions_max: {sessions}
"""
ACCOUNT = """
SELECT count(*), count(DISTINCT intent_id),
    extract(EPOCH FROM max(received_at) - %(began_at)s::timestamptz)::float8
FROM sendledger.observation WHERE outcome = 'accepted'
"""
# As many processes as sessions at both ends; without a limit on how often a client may come.
RELAY = {"default_process_limit": "100", "smtp_destination_concurrency_limit": "50"}


@dataclass(slots=True, kw_only=True)
class Runs:
    """What the rounds gave, in their order."""

    taken_per_s: list[float] = field(default_factory=list)
    arrived_per_s: list[float] = field(default_factory=list)
    in_c_per_s: list[float] = field(default_factory=list)
    missing: int = 0
    twice: int = 0
    different: int = 0


@dataclass(slots=True, kw_only=True)
class Receiver:
    """The capture server behind the relay, a process of its own."""

    port: int
    journal: Path
    kept: Path

    def arrived(self) -> int:
        """Return how many messages it has journalled."""
        with self.journal.open("rb") as lines:
            return sum(1 for _ in lines)


@contextmanager
def receiving(folder: Path) -> Iterator[Receiver]:
    """Run a capture server that keeps what it takes."""
    journal, kept = folder / "accepted.jsonl", folder / "kept"
    command = [sys.executable, "-m", "sendledger_sandbox", "smtp", "--port", "0", "--no-fsync"]
    command += ["--journal", str(journal), "--keep", str(kept)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            yield Receiver(port=int(said.rpartition(":")[2]), journal=journal, kept=kept)
        finally:
            process.terminate()


async def worked(config: Path) -> str:
    """Work all rows off in this process; returns when that began, by the database's clock."""
    async with open_desk(config, connections_max=CONNECTIONS_MAX) as desk:
        worker = Worker(workshop(desk))
        began = (await desk.database.server()).now
        await worker.run(drain=Drain(within=timedelta(0)))
        return began.isoformat()


def measure(stage: Stage, rows: int, runs: Runs) -> None:
    """Send all rows through a fresh relay, wait until they have arrived, and compare every one."""
    folder = Path(tempfile.mkdtemp(dir=stage.folder))
    keeper.kept.clear()
    with (
        receiving(folder) as receiver,
        postfix_relay(next_hop=receiver.port, settings=RELAY) as relay,
        stage.lent(DATABASE, template=PLANNED) as dsn,
    ):
        os.environ["BENCH_DSN"] = dsn
        stage.checkpoint()
        began = time.monotonic()
        began_at = uvloop.run(worked(write_config(stage, relay)))
        with stage.connect(DATABASE) as connection:
            found = connection.execute(ACCOUNT, {"began_at": began_at}).fetchone()
        assert found is not None
        results, intents, seconds = found
        if not results == intents == rows:
            raise AssertionError(f"{rows} rows, but {results} acceptances of {intents}")
        runs.taken_per_s.append(rows / seconds)
        wait_for(receiver, rows)
        runs.arrived_per_s.append(rows / (time.monotonic() - began))
        compare(receiver, runs, rows)


def wait_for(receiver: Receiver, rows: int) -> None:
    """Wait until so many messages have arrived, or nothing has come for a minute."""
    arrived, moved = 0, time.monotonic()
    while arrived < rows and time.monotonic() < moved + END_S:
        time.sleep(0.05)
        if (now := receiver.arrived()) > arrived:
            arrived, moved = now, time.monotonic()


def compare(receiver: Receiver, runs: Runs, rows: int) -> None:
    """Count what is missing, came twice, or is not what was written."""
    entries = read_journal(receiver.journal)
    tokens = {entry.token for entry in entries if entry.token is not None}
    runs.missing += rows - len(tokens)
    runs.twice += len(entries) - len(tokens)
    runs.different += sum(not as_written(receiver, entry) for entry in entries)


def as_written(receiver: Receiver, entry: Accepted) -> bool:
    """Whether a message is what the channel wrote, apart from the headers that relays put on top."""
    message = (receiver.kept / f"{entry.n:06d}.eml").read_bytes()
    while found := TRACE.match(message):
        message = message[found.end() :]
    return keeper.kept.get(entry.token or "") == message


def in_c(stage: Stage, rows: int, runs: Runs) -> None:
    """Let smtp-source fill the same kind of relay with as many messages of the same size."""
    folder = Path(tempfile.mkdtemp(dir=stage.folder))
    with (
        receiving(folder) as receiver,
        postfix_relay(next_hop=receiver.port, settings=RELAY) as relay,
    ):
        size = 2 * BODY_BYTES
        per_s = postfix.source(relay.port, messages=rows, sessions=SESSIONS, size_bytes=size)
        runs.in_c_per_s.append(per_s)


def write_config(stage: Stage, relay: PostfixRelay) -> Path:
    config = stage.folder / "postfix.yaml"
    config.write_text(SETTINGS.format(host=relay.host, port=relay.port, sessions=SESSIONS))
    return config


def require_postfix() -> None:
    """End with a sentence where no relay can be run."""
    if os.geteuid() != 0:
        raise SystemExit("only root can run Postfix; run this benchmark as root")
    try:
        debian_file("usr/lib/postfix/sbin/master", package="postfix")
    except pytest.skip.Exception as missing:
        raise SystemExit(str(missing)) from None


def bench(options: Options) -> None:
    require_postfix()
    rows = options.size(ROWS, quick=QUICK_ROWS)
    runs = Runs()
    configure_logs(json=True, level="error")
    with staged(options) as stage:
        sys.path.insert(0, str(stage.folder))
        install(stage.folder, "bench-keeper", keeper="plugins_for_tests.keeper")
        nowhere = PostfixRelay(host="127.0.0.1", port=1, folder=stage.folder)
        with stage.lent(PLANNED, template=EMPTY) as dsn:
            plan(stage, write_config(stage, nowhere), rows, dsn=dsn)
            with stage.connect(PLANNED) as connection:
                connection.execute("VACUUM ANALYZE")
            for number in range(options.rounds):
                measure(stage, rows, runs)
                in_c(stage, rows, runs)
                progress(
                    f"round {number + 1}: taken {runs.taken_per_s[-1]:.0f}/s,"
                    f" arrived {runs.arrived_per_s[-1]:.0f}/s, smtp-source {runs.in_c_per_s[-1]:.0f}/s"
                )
    tell(runs, rows)


def tell(runs: Runs, rows: int) -> None:
    """Say what came of it."""
    beside = middle(runs.in_c_per_s)
    note = f"{rows} messages, {SESSIONS} sessions, beside smtp-source -d into the same Postfix"
    for bench, values in (
        ("postfix.taken", runs.taken_per_s),
        ("postfix.arrived", runs.arrived_per_s),
    ):
        say(Line(bench=bench, value=middle(values), unit="messages/s", versus=beside, note=note))
    for bench, count in (
        ("postfix.missing", runs.missing),
        ("postfix.twice", runs.twice),
        ("postfix.different", runs.different),
    ):
        say(Line(bench=bench, value=count, unit="messages", must="value == 0", note="all rounds"))


if __name__ == "__main__":
    bench(read_options(__doc__))
