"""SMTP: durable dispatch with the whole ledger to Postfix's smtp-sink, beside clients that only send.

Ours claims planned rows, writes each message from the stored template and the row, opens a committed
attempt, hands it over, and records the result: one worker process, 50 sessions, 50 slots. aiosmtplib
sends ready bytes over 50 sessions and keeps no account of it; smtp-source does that in C.
"""

from __future__ import annotations

import asyncio
import csv
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import postfix
from benchmarks.lines import Line, Options, middle, progress, read_options, say
from benchmarks.rows import accounted_s
from benchmarks.stage import EMPTY, Stage, running, staged, worker

ROWS, QUICK_ROWS = 20_000, 2_000
MEMORY_ROWS, QUICK_MEMORY_ROWS = 200_000, 20_000
SESSIONS = 50
RUN_S = 600
PLANNED = "bench_smtp_planned"
DATABASE = "bench_smtp"
LOOK_S = 0.5
MB = 1024 * 1024

SETTINGS = """\
database: {{dsn: {{$env: BENCH_DSN}}}}
state_dir: .
plugins: [policy]
channels:
  email:
    plugin: smtp
    settings:
      host: 127.0.0.1
      port: {port}
      tls: none
      sender: reports@school.example
      sessions_max: {sessions}
      pipelining: {pipelining}
"""
BATCH = """\
report: {report}
content_revision: "1"
channel: email
purpose: school-reports
authorization: {{id: AUTH-1, by: head of school, at: 2026-03-02T09:00:00+00:00}}
recipients: {{id: student_id, destination: guardian_email}}
variables: {{name: name, grade: grade, teacher: teacher, room: room, day: day}}
content:
  subject: Report for {{{{name}}}}, {{{{grade}}}}, by {{{{teacher}}}} in {{{{room}}}} on {{{{day}}}}
  text: {{$file: report.txt}}
  html: {{$file: report.html}}
"""
SENTENCE = "The school asks everybody who reads this to keep it for the whole of the year.\n"
SLOTS = "{{name}}, {{grade}}, {{teacher}}, {{room}}, {{day}}"
BODY_BYTES = 2_000


@dataclass(slots=True, kw_only=True)
class Runs:
    """What the runs of one side gave, in the order of the rounds."""

    per_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    server_cpu_us: list[float] = field(default_factory=list)
    sink_cpu_us: list[float] = field(default_factory=list)


# --- what is sent -------------------------------------------------------------------------------------


def write_batch(folder: Path, report: str) -> Path:
    """Write a batch with 2 kB of text and as much HTML, five variables each."""
    filling = SENTENCE * (BODY_BYTES // len(SENTENCE))
    (folder / "report.txt").write_text(f"Dear {SLOTS},\n{filling}")
    (folder / "report.html").write_text(f"<p>Dear {SLOTS},</p>\n<p>{filling}</p>\n")
    batch = folder / f"{report}.yaml"
    batch.write_text(BATCH.format(report=report))
    return batch


def write_rows(folder: Path, rows: int) -> Path:
    file = folder / f"{rows}.csv"
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(("student_id", "guardian_email", "name", "grade", "teacher", "room", "day"))
        for number in range(rows):
            address = f"parent{number}@home{number % 500}.example"
            rest = (f"Child {number}", "ABCDE"[number % 5], f"Teacher {number % 40}")
            writer.writerow((f"s{number}", address, *rest, f"Room {number % 30}", "12 May"))
    return file


def plan(stage: Stage, config: Path, rows: int, *options: str, dsn: str) -> None:
    """Plan a batch of so many rows, or only look at it."""
    batch, source = write_batch(stage.folder, "reports"), write_rows(stage.folder, rows)
    command = [sys.executable, "-m", "sendledger", "plan", str(batch), "-r", str(source)]
    subprocess.run(
        [*command, "-c", str(config), *options],
        env=stage.environment(dsn),
        check=True,
        stdout=subprocess.DEVNULL,
    )


@contextmanager
def planned(stage: Stage, config: Path, rows: int) -> Iterator[None]:
    """Make a database of planned rows to clone, vacuumed and analysed as by autovacuum."""
    with stage.lent(PLANNED, template=EMPTY) as dsn:
        plan(stage, config, rows, dsn=dsn)
        with stage.connect(PLANNED) as connection:
            connection.execute("VACUUM ANALYZE")
        yield


def written(stage: Stage, config: Path) -> Path:
    """Return a file with one message as ours writes it: the ready bytes of the others."""
    folder = Path(tempfile.mkdtemp(dir=stage.folder))
    with stage.lent(PLANNED, template=EMPTY) as dsn:
        plan(stage, config, 1, "--preview", "1", "--preview-dir", str(folder / "one"), dsn=dsn)
    [message] = (folder / "one").glob("*.eml")
    return message


# --- runs ---------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Bench:
    """What all runs share: the stage, the sink, the ready message, and how many messages there are."""

    stage: Stage
    sink: postfix.Sink
    message: Path
    rows: int

    def config(self, *, pipelining: bool = True) -> Path:
        return write_config(self.stage, self.sink, pipelining=pipelining)

    async def ours(self, runs: Runs, config: Path, *, workers: int = 1) -> None:
        """Work all rows off with so many worker processes, and account for each."""
        with self.stage.lent(DATABASE, template=PLANNED) as dsn:
            self.stage.checkpoint()
            server_cpu, sink_cpu = self.stage.cpu_s(), self.sink.cpu_s()
            done = await self._worked(dsn, config, workers)
            server_cpu, sink_cpu = self.stage.cpu_s() - server_cpu, self.sink.cpu_s() - sink_cpu
            seconds = self.account(min(one["began_at"] for one in done))
        runs.per_s.append(self.rows / seconds)
        runs.cpu_us.append(sum(one["cpu_s"] for one in done) / self.rows * 1e6)
        runs.server_cpu_us.append(server_cpu / self.rows * 1e6)
        runs.sink_cpu_us.append(sink_cpu / self.rows * 1e6)

    async def _worked(self, dsn: str, config: Path, workers: int) -> list[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            ready = [
                stack.enter_async_context(worker(self.stage, dsn, "--drain", config=config))
                for _ in range(workers)
            ]
            children = await asyncio.gather(*ready)
            heard = [child.hear("done", within_s=RUN_S) for child in children]
            return list(await asyncio.gather(*heard))

    def account(self, began_at: str) -> float:
        """Return in how many seconds all rows were done, each accounted for."""
        return accounted_s(self.stage, DATABASE, count=self.rows, began_at=began_at)

    async def theirs(self, runs: Runs, call: str) -> None:
        """Let aiosmtplib send as many messages of the same bytes."""
        command = [sys.executable, "-m", "benchmarks.peers.aiosmtplib_peer", str(self.sink.port)]
        command += ["--call", call, "--messages", str(self.rows), "--sessions", str(SESSIONS)]
        command += ["--message", str(self.message)]
        async with running(command, self.stage.environment("")) as child:
            done = await child.hear("done", within_s=RUN_S)
        if done["done"] != self.rows:
            raise AssertionError(f"aiosmtplib did {done['done']} of {self.rows} messages")
        runs.per_s.append(self.rows / done["seconds"])
        runs.cpu_us.append(done["cpu_s"] / self.rows * 1e6)

    async def in_c(self, runs: Runs) -> None:
        """Let smtp-source send as many of the same size."""
        size = self.message.stat().st_size
        per_s = await asyncio.to_thread(
            postfix.source, self.sink.port, messages=self.rows, sessions=SESSIONS, size_bytes=size
        )
        runs.per_s.append(per_s)


def write_config(stage: Stage, sink: postfix.Sink, *, pipelining: bool) -> Path:
    mode = "auto" if pipelining else "off"
    config = stage.folder / f"smtp-{mode}.yaml"
    config.write_text(SETTINGS.format(port=sink.port, sessions=SESSIONS, pipelining=mode))
    return config


@dataclass(slots=True, kw_only=True)
class Sides:
    """The sides that are measured in turns."""

    together: Runs = field(default_factory=Runs)
    singly: Runs = field(default_factory=Runs)
    two_workers: Runs = field(default_factory=Runs)
    sendmail: Runs = field(default_factory=Runs)
    steps: Runs = field(default_factory=Runs)
    in_c: Runs = field(default_factory=Runs)


async def measure(bench: Bench, rounds: int) -> Sides:
    """Run each side once a round."""
    sides = Sides()
    together, singly = bench.config(), bench.config(pipelining=False)
    for number in range(rounds):
        await bench.ours(sides.together, together)
        await bench.theirs(sides.sendmail, "sendmail")
        await bench.ours(sides.singly, singly)
        await bench.theirs(sides.steps, "steps")
        await bench.ours(sides.two_workers, together, workers=2)
        await bench.in_c(sides.in_c)
        found = {name: f"{getattr(sides, name).per_s[-1]:.0f}/s" for name in sides.__slots__}
        progress(f"round {number + 1}: {found}")
    return sides


def tell(sides: Sides, message_bytes: int) -> None:
    """Say what came of it."""
    plain = max((sides.sendmail, sides.steps), key=lambda runs: middle(runs.per_s))
    call = "sendmail()" if plain is sides.sendmail else "mail(), rcpt(), data()"
    mine = sides.together
    note = f"{SESSIONS} sessions, {message_bytes} bytes; aiosmtplib {call} with ready bytes"
    compare("smtp.pipelined", mine, plain, must="ratio >= 1.2", note=note)
    compare("smtp.step_by_step", sides.singly, plain, must="ratio >= 0.6", note=note)
    compare("smtp.smtp_source", mine, sides.in_c, note="smtp-source -d, in C, no ledger")
    compare("smtp.two_workers", sides.two_workers, mine, must="ratio >= 0.9", note="beside one")
    compare(
        "smtp.sink", sides.in_c, mine, must="ratio >= 2", note="what it takes beside what we send"
    )
    shared = f"the server used {middle(mine.server_cpu_us):.0f} us for each, the sink"
    say(
        Line(
            bench="smtp.worker_cpu",
            value=middle(mine.cpu_us),
            unit="us/message",
            versus=middle(plain.cpu_us),
            note=f"{shared} {middle(mine.sink_cpu_us):.0f}",
        )
    )


def compare(bench: str, one: Runs, other: Runs, *, must: str | None = None, note: str) -> None:
    value, versus = middle(one.per_s), middle(other.per_s)
    say(Line(bench=bench, value=value, unit="messages/s", versus=versus, must=must, note=note))


# --- memory -------------------------------------------------------------------------------------------


async def memory(bench: Bench, config: Path) -> None:
    """Watch what a worker holds while it works many rows off: after a tenth of them, and at the end."""
    held: list[float] = []
    with bench.stage.lent(DATABASE, template=PLANNED) as dsn:
        async with worker(bench.stage, dsn, "--drain", config=config) as child:
            done = asyncio.create_task(child.hear("done", within_s=RUN_S))
            began = time.monotonic()
            while not done.done():
                held.append(rss_mb(child.pid))
                await asyncio.wait([done], timeout=LOOK_S)
        bench.account(done.result()["began_at"])
    early, late = max(held[: len(held) // 5]), max(held[-len(held) // 5 :])
    say(
        Line(
            bench="smtp.memory",
            value=late,
            unit="MB",
            versus=early,
            must="ratio < 1.1",
            note=f"{bench.rows} messages in {time.monotonic() - began:.0f} s; the first fifth beside the last",
        )
    )


def rss_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * 4096 / MB


async def bench(options: Options) -> None:
    rows = options.size(ROWS, quick=QUICK_ROWS)
    many = options.size(MEMORY_ROWS, quick=QUICK_MEMORY_ROWS)
    with staged(options) as stage, postfix.sink() as sink:
        config = write_config(stage, sink, pipelining=True)
        message = written(stage, config)
        all_ = Bench(stage=stage, sink=sink, message=message, rows=rows)
        with planned(stage, config, rows):
            tell(await measure(all_, options.rounds), message.stat().st_size)
        with planned(stage, config, many):
            await memory(Bench(stage=stage, sink=sink, message=message, rows=many), config)


if __name__ == "__main__":
    asyncio.run(bench(read_options(__doc__)))
