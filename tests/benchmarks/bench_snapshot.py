"""A snapshot held open while a worker goes at full rate: how much longer a claim takes.

Dead row versions cannot be removed while an old snapshot lives, and every claim might step over them. The
95th percentile of the claims at the end of the time is compared with that of claims before the snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from benchmarks import rows
from benchmarks.lines import Line, Options, progress, quantile, read_options, say
from benchmarks.rows import Load
from benchmarks.stage import Stage, staged, worker

SLOTS = 200
BEFORE_S = 15
HELD_S = 180
QUICK_HELD_S = 20
SHARE = 0.95
MORE = 1.3
"""How many rows are loaded for each that the rate before the snapshot asks for."""

Claims = Sequence[tuple[float, float, int]]


async def work(stage: Stage, dsn: str, seconds: float) -> dict[str, Any]:
    """Let a worker go at full rate for so long; returns its report."""
    async with worker(stage, dsn, slots=SLOTS) as child:
        await asyncio.sleep(seconds)
        return await child.stop()


def fed(claims: Claims) -> list[float]:
    """Return how long the claims took that gave rows; without enough of them the queue had run dry."""
    return [seconds for _, seconds, given in claims if given]


def last(claims: Claims, seconds: float) -> list[float]:
    """Return those of the claims that gave rows in the last *seconds*."""
    ended = max(at for at, _, _ in claims)
    return fed([claim for claim in claims if claim[0] > ended - seconds])


async def measure(stage: Stage, options: Options) -> None:
    held_s = options.size(HELD_S, quick=QUICK_HELD_S)
    template = rows.template(stage, "due", options.size(1_000_000, quick=200_000))
    with stage.lent("bench_snapshot", template=template) as dsn:
        with stage.connect("bench_snapshot") as connection:
            rows.autovacuum(connection)
            connection.execute("VACUUM ANALYZE")
        stage.checkpoint()
        before = await work(stage, dsn, BEFORE_S)
        per_s = before["outcomes"]["accepted"] / BEFORE_S
        progress(f"{per_s:.0f}/s before the snapshot")
        with stage.connect("bench_snapshot") as connection:
            rows.load(connection, Load(report="more", rows=int(per_s * held_s * MORE)))
        stage.checkpoint()
        with stage.connect("bench_snapshot") as holder:
            holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT FROM sendledger.installation")
            held = await work(stage, dsn, held_s)
            holder.execute("ROLLBACK")
        with stage.connect("bench_snapshot") as connection:
            left = connection.execute(
                "SELECT count(*) FROM sendledger.delivery WHERE awaits = 'dispatch'"
            ).fetchone()
    if left is None or left[0] == 0:
        raise AssertionError("the queue ran dry: too few rows were loaded")
    tell(before, held, held_s)


def tell(before: dict[str, Any], held: dict[str, Any], held_s: float) -> None:
    """Say what came of it."""
    early, late = fed(before["claims"]), last(held["claims"], held_s / 6)
    say(
        Line(
            bench="snapshot.claim_p95",
            value=quantile(late, SHARE) * 1000,
            unit="ms",
            versus=quantile(early, SHARE) * 1000,
            must="ratio < 2",
            note=f"snapshot held for {held_s:.0f} s; {len(late)} claims at its end beside {len(early)} before",
        )
    )
    say(
        Line(
            bench="snapshot.throughput",
            value=held["outcomes"]["accepted"] / held_s,
            unit="deliveries/s",
            versus=before["outcomes"]["accepted"] / BEFORE_S,
            note="over the whole time beside before",
        )
    )


async def bench(options: Options) -> None:
    with staged(options) as stage:
        await measure(stage, options)


if __name__ == "__main__":
    asyncio.run(bench(read_options(__doc__)))
