"""Planning: a million rows of five columns from a pipe, one in a hundred bad, beside pgqueuer's bulk enqueue.

Each row of ours is checked, written once, compared with what was there and kept with its delivery, all in
one transaction; each of theirs becomes a job that holds it, committed chunk by chunk, with and without a
key that keeps it from being enqueued twice. Both read the same pipe into a database made for the run, on
the same server. Ours is measured from the start of the command to its end.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.lines import Line, Options, middle, progress, read_options, say
from benchmarks.stage import PEERS, TESTS, Stage, staged

ROWS = 1_000_000
QUICK_ROWS = 20_000
BAD_EACH = 100
RSS_MAX_MB = 200
MB = 1024

SETTINGS = """\
database: {dsn: {$env: BENCH_DSN}}
state_dir: .
channels:
  email:
    plugin: smtp
    settings: {host: 127.0.0.1, tls: none, sender: reports@school.example}
"""

BATCH = """\
report: reports
content_revision: "1"
channel: email
purpose: school-reports
authorization: {id: AUTH-1, by: head of school, at: 2026-03-02T09:00:00+00:00}
recipients: {id: student_id, destination: guardian_email}
variables: {name: first_name, grade: grade, teacher: teacher}
content:
  subject: Report for {{name}}
  text: |
    Dear parents of {{name}},
    the grade is {{grade}}. Ask {{teacher}} about it.
  html: <p>{{name}} has {{grade}}, says {{teacher}}</p>
"""

HEADER = ("student_id", "first_name", "guardian_email", "grade", "teacher")
PEER_SETTINGS = (
    "--driver asyncpg --chunk 1000",
    "--driver asyncpg --chunk 5000",
    "--driver psycopg --chunk 1000",
    "--driver psycopg --chunk 5000",
)


@dataclass(slots=True, kw_only=True)
class Runs:
    """What the runs of one side gave, in the order of the rounds."""

    per_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    server_cpu_us: list[float] = field(default_factory=list)
    peak_mb: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended: exit code, output, seconds from start to end, CPU seconds, most memory held."""

    code: int
    out: dict[str, Any]
    seconds: float
    cpu_s: float
    peak_mb: float


def write_rows(file: Path, rows: int) -> None:
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(HEADER)
        for number in range(rows):
            bad = number % BAD_EACH == BAD_EACH // 2
            address = "no address" if bad else f"parent{number}@home{number % 500}.example"
            row = (f"s{number}", f"Child {number}", address, "ABCDE"[number % 5])
            writer.writerow((*row, f"Teacher {number % 40}"))


def piped(command: list[str], source: Path, environment: Mapping[str, str]) -> Ended:
    """Run *command* with *source* coming through a pipe."""
    began = time.monotonic()
    with (
        subprocess.Popen(["cat", str(source)], stdout=subprocess.PIPE) as cat,
        subprocess.Popen(
            command,
            stdin=cat.stdout,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=source.parent,
            env=dict(environment),
        ) as process,
    ):
        assert cat.stdout is not None
        assert process.stdout is not None
        cat.stdout.close()
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(
        code=process.returncode,
        out=json.loads(out or b"{}"),
        seconds=time.monotonic() - began,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_mb=usage.ru_maxrss / MB,
    )


def ours(stage: Stage, runs: Runs, source: Path, rows: int) -> None:
    """Plan the rows, and account for each."""
    config, batch = stage.folder / "planning.yaml", stage.folder / "batch.yaml"
    config.write_text(SETTINGS)
    batch.write_text(BATCH)
    command = [sys.executable, "-m", "sendledger", "plan", str(batch), "-r", "-", "--json"]
    with stage.lent("bench_planning") as dsn:
        stage.checkpoint()
        server_cpu = stage.cpu_s()
        ended = piped([*command, "-c", str(config)], source, stage.environment(dsn))
        server_cpu = stage.cpu_s() - server_cpu
        with stage.connect("bench_planning") as connection:
            found = connection.execute(
                "SELECT (SELECT count(*) FROM sendledger.intent),"
                " (SELECT count(*) FROM sendledger.delivery WHERE awaits = 'dispatch')"
            ).fetchone()
    good = rows - rows // BAD_EACH
    if ended.code != 1 or found != (good, good) or ended.out["rejected"] != rows // BAD_EACH:
        raise AssertionError(f"{rows} rows, but exit code {ended.code} and {found} rows planned")
    runs.per_s.append(rows / ended.seconds)
    runs.cpu_us.append(ended.cpu_s / rows * 1e6)
    runs.server_cpu_us.append(server_cpu / rows * 1e6)
    runs.peak_mb = max(runs.peak_mb, ended.peak_mb)


def theirs(stage: Stage, runs: Runs, source: Path, rows: int, settings: str) -> None:
    """Let pgqueuer enqueue the rows under *settings*."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with stage.lent("bench_peer", template="template0") as dsn:
        stage.checkpoint()
        server_cpu = stage.cpu_s()
        command = [str(PEERS), "-m", "benchmarks.peers.pgqueuer_bulk", dsn, *settings.split()]
        ended = piped(command, source, environment)
        server_cpu = stage.cpu_s() - server_cpu
    if ended.code != 0 or ended.out["jobs"] != rows:
        raise AssertionError(f"{rows} rows, but exit code {ended.code} and {ended.out} enqueued")
    runs.per_s.append(rows / ended.out["seconds"])
    runs.cpu_us.append(ended.out["cpu_s"] / rows * 1e6)
    runs.server_cpu_us.append(server_cpu / rows * 1e6)
    runs.peak_mb = max(runs.peak_mb, ended.peak_mb)


def best_settings(stage: Stage, source: Path, rows: int) -> str:
    """Return the settings under which pgqueuer is fastest here."""
    found: dict[str, float] = {}
    for settings in PEER_SETTINGS:
        runs = Runs()
        theirs(stage, runs, source, rows, settings)
        found[settings] = runs.per_s[0]
        progress(f"pgqueuer {settings}: {runs.per_s[0]:.0f}/s")
    return max(found, key=lambda settings: found[settings])


def bench(options: Options) -> None:
    rows = options.size(ROWS, quick=QUICK_ROWS)
    mine, plain, keyed = Runs(), Runs(), Runs()
    with staged(options) as stage:
        few, source = stage.folder / "few.csv", stage.folder / "rows.csv"
        write_rows(few, options.size(ROWS // 10, quick=QUICK_ROWS))
        write_rows(source, rows)
        settings = best_settings(stage, few, options.size(ROWS // 10, quick=QUICK_ROWS))
        for number in range(options.rounds):
            ours(stage, mine, source, rows)
            theirs(stage, plain, source, rows, settings)
            theirs(stage, keyed, source, rows, f"{settings} --dedupe")
            found = ", ".join(f"{runs.per_s[-1]:.0f}/s" for runs in (mine, plain, keyed))
            progress(f"round {number + 1}: {found} (ours, pgqueuer, pgqueuer with keys)")
    tell(mine, plain, keyed, f"{rows} rows, 1 in {BAD_EACH} bad; pgqueuer {settings}")


def tell(mine: Runs, plain: Runs, keyed: Runs, note: str) -> None:
    """Say what came of it."""
    for name, other in (("pgqueuer", plain), ("pgqueuer_dedupe", keyed)):
        say(
            Line(
                bench=f"planning.{name}",
                value=middle(mine.per_s),
                unit="rows/s",
                versus=middle(other.per_s),
                must="ratio >= 1",
                note=note,
            )
        )
    say(
        Line(
            bench="planning.cpu",
            value=middle(mine.cpu_us) + middle(mine.server_cpu_us),
            unit="us/row",
            versus=middle(plain.cpu_us) + middle(plain.server_cpu_us),
            note=f"ours: {middle(mine.cpu_us):.0f} in Python beside {middle(mine.server_cpu_us):.0f} in"
            f" Postgres; pgqueuer: {middle(plain.cpu_us):.0f} and then {middle(plain.server_cpu_us):.0f}",
        )
    )
    say(
        Line(
            bench="planning.memory",
            value=mine.peak_mb,
            unit="MB",
            versus=plain.peak_mb,
            must=f"value < {RSS_MAX_MB}",
            note="the most that the command held at any time",
        )
    )


if __name__ == "__main__":
    bench(read_options(__doc__))
