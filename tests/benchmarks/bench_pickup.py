"""An idle worker: how soon it hands a new row over, what it costs while idle, and without its listener.

Default poll interval. From just before the commit of the planning to the call of the channel's submit.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import psycopg

from benchmarks.bench_priority import pickup
from benchmarks.lines import Line, Options, middle, quantile, read_options, say
from benchmarks.stage import Child, Stage, staged, worker

DATABASE = "bench_pickup"
SLOTS = 50
POLL_S = 2.0
SETTLE_S = 2.0
IDLE_S = 20
BETWEEN_S = 0.25
LISTENER = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'sendledger listener'
"""


def cpu_s(pid: int) -> float:
    """Return the CPU time that process *pid* has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def idle_share(child: Child, seconds: float) -> float:
    """Return the share of one core that the worker uses while nothing is due."""
    used, began = cpu_s(child.pid), time.monotonic()
    await asyncio.sleep(seconds)
    return (cpu_s(child.pid) - used) / (time.monotonic() - began)


def kill_listener(stage: Stage) -> None:
    """Cut the worker's listening connection."""
    with stage.connect(DATABASE) as admin:
        found = admin.execute(LISTENER).fetchone()
    assert found is not None
    if found[0] != 1:
        raise AssertionError(f"expected one listener, found {found[0]}")


async def measure(stage: Stage, options: Options) -> None:
    planner = stage.planner()
    with stage.lent(DATABASE) as dsn:
        async with (
            worker(stage, dsn, slots=SLOTS) as child,
            await psycopg.AsyncConnection.connect(dsn) as connection,
        ):
            await asyncio.sleep(SETTLE_S)
            share = await idle_share(child, options.size(IDLE_S, quick=5))
            heard: list[float] = []
            for number in range(options.size(40, quick=10)):
                heard.append(await pickup(planner, connection, child, number))
                await asyncio.sleep(BETWEEN_S)
            deaf: list[float] = []
            for number in range(1000, 1000 + options.size(5, quick=2)):
                kill_listener(stage)
                deaf.append(await pickup(planner, connection, child, number))
                await asyncio.sleep(SETTLE_S)
            await child.stop()
    tell(share, heard, deaf)


def tell(share: float, heard: list[float], deaf: list[float]) -> None:
    """Say what came of it."""
    say(
        Line(
            bench="pickup.idle",
            value=middle(heard) * 1000,
            unit="ms",
            must="value < 50",
            note=f"median of {len(heard)}, p95 {quantile(heard, 0.95) * 1000:.0f} ms",
        )
    )
    say(
        Line(
            bench="pickup.idle_cpu",
            value=share * 100,
            unit="percent",
            must="value < 1",
            note="of one core, while nothing is due",
        )
    )
    say(
        Line(
            bench="pickup.listener_killed",
            value=max(deaf),
            unit="s",
            must=f"value < {POLL_S + 1:g}",
            note=f"worst of {len(deaf)}, planned at once after the listening connection was cut",
        )
    )


async def bench(options: Options) -> None:
    with staged(options) as stage:
        await measure(stage, options)


if __name__ == "__main__":
    asyncio.run(bench(read_options(__doc__)))
