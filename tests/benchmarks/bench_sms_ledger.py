"""SMS with the whole ledger, beside the vendor's client that keeps no account of anything.

Ours claims planned rows, writes each text from the stored template and the row, opens a committed attempt,
hands it over and records the result: one worker process. Theirs makes the same requests over the same HTTP
client. Either has 50 requests at the provider at once, which is the stand-in, a process of its own; its journal
is not flushed to disk. It takes 100 ms for each as a provider across a network does, or answers at once,
which compares how much computing there is.
"""

from __future__ import annotations

import asyncio
import csv
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import phonenumbers

from benchmarks.lines import Line, Options, middle, progress, read_options, say
from benchmarks.rows import accounted_s
from benchmarks.stage import EMPTY, Stage, process_cpu_s, running, staged, worker
from sendledger_sandbox.twilio import ACCOUNT_SID, AUTH_TOKEN, SENDER, read_journal

ROWS, QUICK_ROWS = 6_000, 300
AT_ONCE = 50
SLOTS = 2 * AT_ONCE
"""More than sessions: a slot is held until its result is committed, a session is free before."""

TAKES = {"100 ms": ("--script", "stall-0.1"), "no time": ()}
"""What the provider takes for a request, and how it is told so."""

RUN_S = 300
PLANNED = "bench_sms_planned"
DATABASE = "bench_sms"

SETTINGS = """\
database: {{dsn: {{$env: BENCH_DSN}}}}
state_dir: .
plugins: [policy]
channels:
  sms:
    plugin: twilio
    slots: {slots}
    settings:
      account_sid: {account}
      auth_token: {{$file: {token}}}
      senders: ["{sender}"]
      countries: [US]
      base_url: {url}
      sessions_max: {at_once}
"""
BATCH = """\
report: notices
content_revision: "1"
channel: sms
purpose: school-notices
authorization: {id: AUTH-1, by: head of school, at: 2026-03-02T09:00:00+00:00}
recipients: {id: student_id, destination: guardian_phone}
variables: {name: name}
content: {text: "Dear parent of {{name}}, the report is ready and waits for you at school."}
"""
TEXT = "Dear parent of Child 1000, the report is ready and waits for you at school."


@dataclass(slots=True, kw_only=True)
class Runs:
    """What the runs of one side gave, in the order of the rounds."""

    per_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    server_cpu_us: list[float] = field(default_factory=list)
    provider_cpu_us: list[float] = field(default_factory=list)


def numbers() -> Iterator[str]:
    """Return made-up numbers that the stand-in delivers to: 50 of each area there is."""
    for area in range(201, 990):
        for line in range(50):
            text = f"+1{area}55501{line:02}"
            found = phonenumbers.parse(text)
            kind = phonenumbers.number_type(found)
            ours = phonenumbers.region_code_for_number(found) == "US"
            if ours and kind == phonenumbers.PhoneNumberType.FIXED_LINE_OR_MOBILE:
                yield text


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A running stand-in."""

    url: str
    pid: int
    journal: Path

    @property
    def accepted(self) -> int:
        """How many messages it took."""
        return len(read_journal(self.journal).accepted)


@contextmanager
def provider(folder: Path, takes: str) -> Iterator[Provider]:
    """Run a stand-in that accepts everything, and whose messages then stay as they are."""
    journal = folder / "accepted.jsonl"
    journal.unlink(missing_ok=True)
    command = [sys.executable, "-m", "sendledger_sandbox", "twilio", "--port", "0", "--no-fsync"]
    command += ["--journal", str(journal), "--step", "3600", *TAKES[takes]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        yield Provider(url=url, pid=process.pid, journal=journal)
        process.terminate()


@dataclass(slots=True, kw_only=True)
class Bench:
    """What all runs share: the stage, whom is written to, and how many they are."""

    stage: Stage
    people: Path
    rows: int

    def config(self, url: str) -> Path:
        """Write settings that hand over to *url*."""
        token = self.stage.folder / "token"
        token.write_text(AUTH_TOKEN)
        token.chmod(0o600)
        config = self.stage.folder / "sms.yaml"
        config.write_text(
            SETTINGS.format(
                slots=SLOTS,
                at_once=AT_ONCE,
                account=ACCOUNT_SID,
                token=token,
                sender=SENDER,
                url=url,
            )
        )
        return config

    @contextmanager
    def planned(self) -> Iterator[None]:
        """Make a database of planned rows to clone, vacuumed and analysed as by autovacuum."""
        folder = self.stage.folder
        (folder / "notices.yaml").write_text(BATCH)
        with (folder / "people.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("student_id", "guardian_phone", "name"))
            for n, one in enumerate(self.people.read_text().split()):
                writer.writerow((f"s{n}", one, f"Child {n}"))
        command = [sys.executable, "-m", "sendledger", "plan", str(folder / "notices.yaml")]
        command += ["-r", str(folder / "people.csv"), "-c", str(self.config("http://127.0.0.1:9"))]
        with self.stage.lent(PLANNED, template=EMPTY) as dsn:
            environment = self.stage.environment(dsn)
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
            with self.stage.connect(PLANNED) as connection:
                connection.execute("VACUUM ANALYZE")
            yield

    async def ours(self, runs: Runs, takes: str) -> None:
        """Work all rows off, and account for each."""
        stage = self.stage
        with stage.lent(DATABASE, template=PLANNED) as dsn, provider(stage.folder, takes) as taking:
            stage.checkpoint()
            server_cpu, cpu = stage.cpu_s(), process_cpu_s(taking.pid)
            async with worker(stage, dsn, "--drain", config=self.config(taking.url)) as child:
                done = await child.hear("done", within_s=RUN_S)
            server_cpu, cpu = stage.cpu_s() - server_cpu, process_cpu_s(taking.pid) - cpu
            seconds = self._account(taking, done["began_at"])
        runs.per_s.append(self.rows / seconds)
        runs.cpu_us.append(done["cpu_s"] / self.rows * 1e6)
        runs.server_cpu_us.append(server_cpu / self.rows * 1e6)
        runs.provider_cpu_us.append(cpu / self.rows * 1e6)

    def _account(self, taking: Provider, began_at: str) -> float:
        if taking.accepted != self.rows:
            raise AssertionError(f"{self.rows} rows, but {taking.accepted} taken")
        return accounted_s(self.stage, DATABASE, count=self.rows, began_at=began_at)

    async def theirs(self, runs: Runs, takes: str) -> None:
        """Let the vendor's client send as many."""
        with provider(self.stage.folder, takes) as taking:
            command = [sys.executable, "-m", "benchmarks.peers.twilio_peer", taking.url]
            command += ["--numbers", str(self.people), "--text", TEXT, "--sessions", str(AT_ONCE)]
            cpu = process_cpu_s(taking.pid)
            async with running(command, self.stage.environment("")) as child:
                done = await child.hear("done", within_s=RUN_S)
            cpu = process_cpu_s(taking.pid) - cpu
            if not done["done"] == taking.accepted == self.rows:
                raise AssertionError(f"{self.rows} numbers, but {taking.accepted} taken")
        runs.per_s.append(self.rows / done["seconds"])
        runs.cpu_us.append(done["cpu_s"] / self.rows * 1e6)
        runs.provider_cpu_us.append(cpu / self.rows * 1e6)


def tell(name: str, ours: Runs, theirs: Runs, *, must: str | None, note: str) -> None:
    """Say what came of it."""
    rate, their_rate = middle(ours.per_s), middle(theirs.per_s)
    say(Line(bench=name, value=rate, unit="messages/s", versus=their_rate, must=must, note=note))
    cpu, their_cpu = middle(ours.cpu_us), middle(theirs.cpu_us)
    provider_us = middle(ours.provider_cpu_us), middle(theirs.provider_cpu_us)
    shared = (
        f"Postgres used {middle(ours.server_cpu_us):.0f} us for each,"
        f" the provider {provider_us[0]:.0f} and {provider_us[1]:.0f}"
    )
    say(Line(bench=f"{name}.cpu", value=cpu, unit="us/message", versus=their_cpu, note=shared))


async def measure(bench: Bench, takes: str, rounds: int) -> tuple[Runs, Runs]:
    """Run both sides in turns, once a round."""
    ours, theirs = Runs(), Runs()
    for number in range(rounds):
        await bench.ours(ours, takes)
        await bench.theirs(theirs, takes)
        rates = f"{ours.per_s[-1]:.0f} and {theirs.per_s[-1]:.0f}/s"
        progress(f"round {number + 1}, the provider takes {takes}: {rates}")
    return ours, theirs


async def bench(options: Options) -> None:
    rows = options.size(ROWS, quick=QUICK_ROWS)
    with staged(options) as stage:
        people = stage.folder / "numbers.txt"
        people.write_text("\n".join(islice(numbers(), rows)))
        measured = Bench(stage=stage, people=people, rows=rows)
        with measured.planned():
            note = f"{AT_ONCE} at once; beside messages.create_async over the same HTTP client, no ledger"
            found = await measure(measured, "100 ms", options.rounds)
            tell("sms.ledger", *found, must="ratio >= 0.8", note=f"{note}; 100 ms a request")
            found = await measure(measured, "no time", options.rounds)
            tell(
                "sms.ledger_at_once", *found, must="ratio >= 0.8", note=f"{note}; answered at once"
            )


if __name__ == "__main__":
    asyncio.run(bench(read_options(__doc__)))
