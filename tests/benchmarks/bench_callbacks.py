"""Receipts over HTTP: what ``sendledger serve`` takes in, beside a bare route that reads the form; and how soon.

Receipts are signed and each is another event; each is committed before it is answered, and folded by the same
process. Answers are timed while a worker hands over as fast as it can.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import uvloop

from benchmarks import rows
from benchmarks.bench_pickup import cpu_s
from benchmarks.calling import TAKEN, call
from benchmarks.lines import Line, Options, middle, progress, quantile, read_options, say
from benchmarks.stage import PEERS, Child, Stage, running, staged, worker
from plugins_for_tests import install
from plugins_for_tests.courier import begin_anew, form, office, signed
from sendledger.bootstrap import open_desk, workshop
from sendledger.planning import Authorization, Batch, Planner, Recipient
from sendledger.work.worker import Drain, Worker

DATABASE = "bench_callbacks"
PUBLIC_URL = "https://hooks.school.example"
CONNECTIONS = 256
"""Kept open, and enough of them that none of the two servers ever waits for requests."""

EVENTS = 2
WARM_UP = 10
"""One request of so many goes before the measurement."""

PER_SECOND = 500
LOOK_S = 0.02
WAITING = "SELECT FROM sendledger.inbox LIMIT 1"
DRIPPING = 64
LISTENING = re.compile(rb"receipts at http://127\.0\.0\.1:(\d+)")
SETTINGS = """\
database: {{dsn: {{$env: BENCH_DSN}}}}
state_dir: .
plugins: [policy]
channels:
  letter: {{plugin: courier, slots: 100, settings: {{}}}}
  noop: {{plugin: noop, slots: 20, settings: {{}}}}
http: {{listen: "127.0.0.1:0", public_url: "{url}"}}
"""


def write_settings(stage: Stage) -> Path:
    file = stage.folder / "callbacks.yaml"
    file.write_text(SETTINGS.format(url=PUBLIC_URL), encoding="utf-8")
    return file


async def hand_over(stage: Stage, dsn: str, config: Path, letters: int) -> list[str]:
    """Plan and submit so many letters; returns the paths that their receipts go to."""
    begin_anew()
    os.environ["BENCH_DSN"] = dsn
    stage.planner()  # lets this process import the channels of the stage
    batch = Batch(
        report="letters",
        content_revision="1",
        channel="letter",
        purpose="bench",
        authorization=Authorization(id="A-1", by="bench", at=datetime.now(UTC)),
        parts={"text": "hello {{name}}"},
    )
    people = (
        Recipient(id=f"r-{n}", destination=f"r{n}@home.test", variables={"name": "reader"})
        for n in range(letters)
    )
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await Planner.load(config).plan(connection, batch, people)
    async with open_desk(config, connections_max=10) as desk:
        await Worker(workshop(desk, channels=["letter"])).run(drain=Drain())
    return [str(each.callback_url).removeprefix(PUBLIC_URL) for each in office.submitted]


def requests_for(paths: Sequence[str], event: str) -> list[bytes]:
    """Return a signed receipt for each path, as it goes over the wire."""
    return [_request(path, form("sent", event)) for path in paths]


def _request(path: str, body: bytes) -> bytes:
    headers = signed(f"{PUBLIC_URL}{path}", body)
    lines = [f"POST {path} HTTP/1.1", "Host: hooks", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(frozen=True, slots=True)
class Side:
    """A server process under measurement."""

    port: int
    pid: int


@dataclass(slots=True)
class Caller:
    """One connection of the provider's."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def post(self, request: bytes) -> float:
        """Return how long the answer took."""
        began = time.monotonic()
        self.writer.write(request)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(TAKEN):
            raise AssertionError(f"expected 204, found {answer[:12]!r}")
        return time.monotonic() - began


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """How many were answered in a second, and what CPU time each cost whom."""

    per_s: float
    server_us: float
    database_us: float
    caller_us: float


async def flood(stage: Stage, side: Side, requests: Sequence[bytes]) -> Flood:
    """Post as fast as they are answered."""
    begun = len(requests) // WARM_UP
    await call(side.port, requests[:begun], connections=CONNECTIONS)
    stage.checkpoint()
    count = len(requests) - begun
    before = _used_s(stage, side)
    seconds = await call(side.port, requests[begun:], connections=CONNECTIONS)
    server, database, caller = (
        (after - used) / count * 1e6
        for used, after in zip(before, _used_s(stage, side), strict=True)
    )
    return Flood(per_s=count / seconds, server_us=server, database_us=database, caller_us=caller)


def _used_s(stage: Stage, side: Side) -> tuple[float, float, float]:
    return cpu_s(side.pid), stage.cpu_s(), time.process_time()


async def drip(port: int, requests: Sequence[bytes]) -> list[float]:
    """Post so many a second, whatever the answers do; returns how long each took from its turn on."""
    free: asyncio.Queue[Caller] = asyncio.Queue()
    took: list[float] = []

    async def post(request: bytes, due: float) -> None:
        caller = await free.get()
        await caller.post(request)
        took.append(time.monotonic() - due)
        free.put_nowait(caller)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(DRIPPING):
            free.put_nowait(Caller(*await asyncio.open_connection("127.0.0.1", port)))
        began = time.monotonic()
        for number, request in enumerate(requests):
            due = began + number / PER_SECOND
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            tasks.create_task(post(request, due))
    while not free.empty():
        free.get_nowait().writer.close()
    return took


@asynccontextmanager
async def serving(stage: Stage, dsn: str, config: Path) -> AsyncIterator[int]:
    """Run ``sendledger serve --no-work``; lends its port."""
    command = [sys.executable, "-m", "sendledger", "serve", "--no-work", "--config", str(config)]
    process = await asyncio.create_subprocess_exec(
        *command, env=stage.environment(dsn), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        while (found := LISTENING.search(line := await process.stderr.readline())) is None:
            if not line:
                raise ChildProcessError("sendledger serve did not start")
        reading = asyncio.create_task(process.stderr.read())
        yield int(found[1])
        reading.cancel()
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def bare(stage: Stage) -> AsyncIterator[Side]:
    """Run the bare route."""
    async with running(
        [str(PEERS), "-m", "benchmarks.peers.bare_form"], stage.environment("")
    ) as it:
        yield await _side(it)


@asynccontextmanager
async def reception(stage: Stage, dsn: str, config: Path) -> AsyncIterator[Side]:
    """Run the HTTP side alone."""
    command = [sys.executable, "-m", "benchmarks.reception", str(config)]
    async with running(command, stage.environment(dsn)) as child:
        yield await _side(child)


async def _side(child: Child) -> Side:
    assert child.process.stdout is not None
    return Side(port=int(await child.process.stdout.readline()), pid=child.pid)


async def emptied(stage: Stage) -> None:
    """Wait until the inbox is empty."""
    with stage.connect(DATABASE) as admin:
        while admin.execute(WAITING).fetchone() is not None:  # noqa: ASYNC110 - rows have no event
            await asyncio.sleep(LOOK_S)


async def rates(stage: Stage, config: Path, options: Options) -> None:
    """Measure how many are committed and answered in a second, and how many are folded, too."""
    letters = options.size(5000, quick=500)
    ours: list[Flood] = []
    theirs: list[Flood] = []
    folded: list[float] = []
    with stage.lent(DATABASE) as dsn:
        paths = await hand_over(stage, dsn, config, letters)
        for number in range(options.rounds):
            progress(f"callbacks: round {number + 1}")
            events = [f"event-{number}-{event}" for event in range(EVENTS)]
            requests = [request for event in events for request in requests_for(paths, event)]
            async with bare(stage) as side:
                theirs.append(await flood(stage, side, requests))
            async with reception(stage, dsn, config) as side:
                ours.append(await flood(stage, side, requests))
            began = time.monotonic()
            async with serving(stage, dsn, config):
                await emptied(stage)
                folded.append(len(requests) / (time.monotonic() - began))
    say(
        Line(
            bench="callbacks.rate",
            value=middle([flood.per_s for flood in ours]),
            versus=middle([flood.per_s for flood in theirs]),
            unit="receipts/s",
            must="ratio >= 0.4",
            note=f"{CONNECTIONS} connections; committed before they are answered",
        )
    )
    say(
        Line(
            bench="callbacks.cpu",
            value=middle([flood.server_us for flood in ours]),
            versus=middle([flood.server_us for flood in theirs]),
            unit="us",
            note="of the server's process for each receipt; the caller's own"
            f" {middle([flood.caller_us for flood in ours]):.0f}",
        )
    )
    say(
        Line(
            bench="callbacks.database_cpu",
            value=middle([flood.database_us for flood in ours]),
            unit="us",
            note="of Postgres for each receipt",
        )
    )
    say(
        Line(
            bench="callbacks.folded",
            value=middle(folded),
            unit="receipts/s",
            note="until the inbox is empty, the start of the process included",
        )
    )


async def latency(stage: Stage, config: Path, options: Options) -> None:
    """Measure how soon 500 a second are answered while a worker hands over as fast as it can."""
    letters = options.size(5000, quick=500)
    with stage.lent(DATABASE) as dsn:
        with stage.connect(DATABASE) as connection:
            beside = options.size(150_000, quick=5000)
            rows.load(connection, rows.Load(report="beside", rows=beside))
        paths = await hand_over(stage, dsn, config, letters)
        async with serving(stage, dsn, config) as port, worker(stage, dsn, config=config) as child:
            took = await drip(port, requests_for(paths, "event"))
            report = await child.stop()
    say(
        Line(
            bench="callbacks.p99",
            value=quantile(took, 0.99) * 1000,
            unit="ms",
            must="value < 250",
            note=f"{PER_SECOND}/s for {letters / PER_SECOND:.0f} s; median"
            f" {middle(took) * 1000:.0f} ms, {report['outcomes'].get('accepted', 0)} handed over beside",
        )
    )


async def bench(options: Options) -> None:
    with staged(options) as stage:
        install(stage.folder, "bench-courier", courier="plugins_for_tests.courier")
        config = write_settings(stage)
        await rates(stage, config, options)
        await latency(stage, config, options)


if __name__ == "__main__":
    uvloop.run(bench(read_options(__doc__)))
