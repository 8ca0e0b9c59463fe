"""Ledger only: deliveries through a no-op channel, beside no-op jobs of procrastinate and pgqueuer.

Every side works a queue that is full before it starts, one worker process on uvloop, the same server with
the same settings (``synchronous_commit = on``), a database of its own that is made for the run. A rate is
what the database's clock says: results stored, divided by the time from the start to the last of them.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field

from benchmarks import rows
from benchmarks.lines import Line, Options, middle, progress, read_options, say
from benchmarks.rows import Load
from benchmarks.stage import PEERS, TESTS, Stage, running, staged, worker

ACCOUNT = """
SELECT count(*), extract(EPOCH FROM max(received_at) - %(began_at)s::timestamptz)::float8,
    (SELECT count(*) FROM sendledger.attempt), count(DISTINCT intent_id)
FROM sendledger.observation WHERE outcome = 'accepted'
"""
RUN_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A peer, how many jobs it works in a run, and the settings among which the fastest is taken.

    *slots* is how many slots ours has beside it, *must* what has to hold.
    """

    label: str
    name: str
    jobs: int
    quick_jobs: int
    settings: tuple[str, ...]
    slots: int
    must: str | None


PROCRASTINATE = Peer(
    label="procrastinate",
    name="procrastinate",
    jobs=1_000,
    quick_jobs=200,
    settings=("--concurrency 50 --pool 10", "--concurrency 50 --pool 50"),
    slots=50,
    must="ratio >= 10",
)
PGQUEUER = Peer(
    label="pgqueuer",
    name="pgqueuer",
    jobs=20_000,
    quick_jobs=4_000,
    settings=(
        "--driver asyncpg --dequeuers 5 --batch 10",
        "--driver asyncpg --dequeuers 1 --batch 25",
        "--driver asyncpg --dequeuers 1 --batch 20 --concurrency 100",
        "--driver psycopg --dequeuers 5 --batch 10",
    ),
    slots=200,
    must="ratio >= 1",
)
"""Batch sizes and concurrency as its pages on benchmarks and on tuning have them."""
PGQUEUER_WIDE = Peer(
    label="pgqueuer_wide",
    name="pgqueuer",
    jobs=20_000,
    quick_jobs=4_000,
    settings=(
        "--driver asyncpg --dequeuers 1 --batch 100",
        "--driver asyncpg --dequeuers 1 --batch 100 --concurrency 200",
    ),
    slots=200,
    must=None,
)
"""With a batch wider than its pages have: as many jobs at once as we have slots."""
PEERS_MEASURED = (PROCRASTINATE, PGQUEUER, PGQUEUER_WIDE)


@dataclass(slots=True, kw_only=True)
class Runs:
    """What the runs of one side gave, in the order of the rounds."""

    per_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    server_cpu_us: list[float] = field(default_factory=list)
    peak: int = 0


async def ours(stage: Stage, runs: Runs, *, deliveries: int, slots: int) -> None:
    """Work *deliveries* off and account for each: one attempt, one result."""
    with stage.lent("bench_ledger") as dsn:
        with stage.connect("bench_ledger") as connection:
            rows.load(connection, Load(report="ledger", rows=deliveries))
            rows.settle(connection)
        stage.checkpoint()
        server_cpu = stage.cpu_s()
        async with worker(stage, dsn, "--drain", slots=slots) as child:
            done = await child.hear("done", within_s=RUN_S)
        server_cpu = stage.cpu_s() - server_cpu
        with stage.connect("bench_ledger") as connection:
            found = connection.execute(ACCOUNT, done).fetchone()
    assert found is not None
    results, seconds, attempts, intents = found
    if not results == attempts == intents == deliveries:
        raise AssertionError(
            f"{deliveries} deliveries, but {attempts} attempts and {results} results of {intents}"
        )
    if done["in_flight_peak"] > slots:
        raise AssertionError(f"{done['in_flight_peak']} attempts open at once with {slots} slots")
    runs.per_s.append(results / seconds)
    runs.cpu_us.append(done["cpu_s"] / results * 1e6)
    runs.server_cpu_us.append(server_cpu / results * 1e6)
    runs.peak = max(runs.peak, done["in_flight_peak"])


async def theirs(stage: Stage, peer: Peer, runs: Runs, *, jobs: int, settings: str) -> None:
    """Let the peer work *jobs* off under *settings*."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with stage.lent("bench_peer", template="template0") as dsn:
        stage.checkpoint()
        module = f"benchmarks.peers.{peer.name}_peer"
        command = [str(PEERS), "-m", module, dsn, "--jobs", str(jobs), *settings.split()]
        async with running(command, environment) as child:
            done = await child.hear("done", within_s=RUN_S)
    if done["done"] != jobs:
        raise AssertionError(f"{peer.name} did {done['done']} of {jobs} jobs")
    runs.per_s.append(jobs / done["seconds"])
    runs.cpu_us.append(done["cpu_s"] / jobs * 1e6)


async def best_settings(stage: Stage, peer: Peer, jobs: int) -> str:
    """Return the settings under which *peer* is fastest here."""
    found: dict[str, float] = {}
    for settings in peer.settings:
        runs = Runs()
        await theirs(stage, peer, runs, jobs=jobs, settings=settings)
        found[settings] = runs.per_s[0]
        progress(f"{peer.name} {settings}: {runs.per_s[0]:.0f}/s")
    return max(found, key=lambda settings: found[settings])


async def beside(stage: Stage, peer: Peer, options: Options) -> None:
    """Measure ours and the peer in turns."""
    jobs = options.size(peer.jobs, quick=peer.quick_jobs)
    deliveries = options.size(20_000, quick=4_000)
    settings = await best_settings(stage, peer, jobs)
    mine, other = Runs(), Runs()
    for number in range(options.rounds):
        await ours(stage, mine, deliveries=deliveries, slots=peer.slots)
        await theirs(stage, peer, other, jobs=jobs, settings=settings)
        progress(f"round {number + 1}: {mine.per_s[-1]:.0f}/s, {peer.name} {other.per_s[-1]:.0f}/s")
    tell(peer, settings, mine, other)


def tell(peer: Peer, settings: str, mine: Runs, other: Runs) -> None:
    """Say what came of it."""
    say(
        Line(
            bench=f"ledger.{peer.label}",
            value=middle(mine.per_s),
            unit="deliveries/s",
            versus=middle(other.per_s),
            must=peer.must,
            note=f"{peer.slots} slots; {peer.name} {settings}",
        )
    )
    say(
        Line(
            bench=f"ledger.{peer.label}.in_flight_peak",
            value=mine.peak,
            unit="attempts",
            must=f"value <= {peer.slots}",
            note="opened and not recorded; each delivery has one attempt and one result",
        )
    )
    say(
        Line(
            bench=f"ledger.{peer.label}.worker_cpu",
            value=middle(mine.cpu_us),
            unit="us/delivery",
            versus=middle(other.cpu_us),
            note=f"the server used {middle(mine.server_cpu_us):.0f} us for each of our deliveries",
        )
    )


async def bench(options: Options) -> None:
    with staged(options) as stage:
        for peer in PEERS_MEASURED:
            await beside(stage, peer, options)


if __name__ == "__main__":
    asyncio.run(bench(read_options(__doc__)))
