"""One run of pgqueuer over no-op jobs: installs its schema, enqueues, drains, prints one JSON object.

Runs in an environment of its own (`make bench` makes it) and imports nothing of Sendledger.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import time
from datetime import datetime, timedelta

import psycopg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, PsycopgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode


async def connect(dsn: str, driver: str) -> AsyncpgDriver | PsycopgDriver:
    if driver == "asyncpg":
        import asyncpg  # noqa: PLC0415 - only this driver needs it

        return AsyncpgDriver(await asyncpg.connect(dsn.partition("?")[0]))
    return PsycopgDriver(await psycopg.AsyncConnection.connect(dsn, autocommit=True))


async def noop(_: Job) -> None:
    """Do nothing, as the channel on the other side does."""


async def work(dsn: str, options: argparse.Namespace) -> None:
    """Drain the queue with one of *options.dequeuers* loops; they share this process."""
    queuer = PgQueuer(await connect(dsn, options.driver))
    queuer.entrypoint("noop")(noop)
    await queuer.run(
        batch_size=options.batch,
        max_concurrent_tasks=options.concurrency or None,
        mode=QueueExecutionMode.drain,
        dequeue_timeout=timedelta(seconds=1),
    )


async def measure(dsn: str, options: argparse.Namespace) -> None:
    queries = Queries(await connect(dsn, options.driver))
    await queries.install()
    await queries.optimize_autovacuum()
    jobs = options.jobs
    await queries.enqueue(["noop"] * jobs, [None] * jobs, [0] * jobs)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as admin:
        await admin.execute("VACUUM ANALYZE")
        cursor = await admin.execute("SELECT clock_timestamp()")
        [began] = await cursor.fetchone() or [None]
        cpu = time.process_time()
        await asyncio.gather(*(work(dsn, options) for _ in range(options.dequeuers)))
        cpu = time.process_time() - cpu
        cursor = await admin.execute(
            "SELECT count(DISTINCT job_id), max(created) FROM pgqueuer_log WHERE status = 'successful'"
        )
        done, ended = await cursor.fetchone() or (0, began)
    assert isinstance(began, datetime)
    assert isinstance(ended, datetime)
    seconds = (ended - began).total_seconds()
    print(json.dumps({"event": "done", "done": done, "seconds": seconds, "cpu_s": cpu}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsn")
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--driver", choices=("asyncpg", "psycopg"), required=True)
    parser.add_argument("--dequeuers", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--concurrency", type=int, default=0, help="0: not limited")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    uvloop.run(measure(options.dsn, options))


if __name__ == "__main__":
    main()
