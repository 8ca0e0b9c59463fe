"""One transactional row among a million due bulk rows: how soon it is handed over by a busy worker.

From just before the commit of its planning to the call of the channel's submit, on one clock.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import psycopg

from benchmarks import rows
from benchmarks.lines import Line, Options, middle, progress, quantile, read_options, say
from benchmarks.noop import MARKED
from benchmarks.stage import Child, Stage, staged, worker
from sendledger.planning import Authorization, Batch, Lane, Planner, Recipient

SLOTS = 50
WARM_S = 2
BETWEEN_S = 0.2
PICKUP_S_MAX = 30


def batch(number: int) -> Batch:
    """Return a transactional batch for one recipient."""
    return Batch(
        report=f"transactional-{number}",
        content_revision="1",
        channel="noop",
        purpose="bench",
        lane=Lane.TRANSACTIONAL,
        authorization=Authorization(id="A-1", by="bench", at=datetime.now(UTC)),
        parts={"text": "hello {{name}}"},
    )


async def pickup(
    planner: Planner, connection: psycopg.AsyncConnection, child: Child, number: int
) -> float:
    """Plan one transactional row, and return how many seconds it took to be submitted."""
    recipient = Recipient(
        id=f"r-{number}", destination=f"{MARKED}-{number}", variables={"name": "reader"}
    )
    await planner.plan(connection, batch(number), [recipient])
    committing = time.monotonic()
    await connection.commit()
    told = await child.hear("marked", within_s=PICKUP_S_MAX)
    assert told["destination"] == f"{MARKED}-{number}"
    return float(told["at"]) - committing


async def measure(stage: Stage, options: Options) -> tuple[list[float], float]:
    """Return the pickups of single rows, and the bulk rows per second that were handed over meanwhile."""
    planner = stage.planner()
    count = options.size(1_000_000, quick=100_000)
    pickups: list[float] = []
    template = rows.template(stage, "due", count)
    with stage.lent("bench_priority", template=template) as dsn:
        with stage.connect("bench_priority") as connection:
            rows.autovacuum(connection)
        async with (
            worker(stage, dsn, slots=SLOTS) as child,
            await psycopg.AsyncConnection.connect(dsn) as connection_,
        ):
            began = time.monotonic()
            await asyncio.sleep(WARM_S)
            for number in range(options.size(40, quick=10)):
                pickups.append(await pickup(planner, connection_, child, number))
                await asyncio.sleep(BETWEEN_S)
            seconds = time.monotonic() - began
            done = await child.stop()
    return pickups, done["outcomes"]["accepted"] / seconds


async def bench(options: Options) -> None:
    with staged(options) as stage:
        pickups, per_s = await measure(stage, options)
    progress(f"worst {max(pickups) * 1000:.0f} ms")
    say(
        Line(
            bench="priority.pickup",
            value=middle(pickups) * 1000,
            unit="ms",
            must="value < 100",
            note=f"median of {len(pickups)}, p95 {quantile(pickups, 0.95) * 1000:.0f} ms, among bulk"
            f" rows going out at {per_s:.0f}/s",
        )
    )


if __name__ == "__main__":
    asyncio.run(bench(read_options(__doc__)))
