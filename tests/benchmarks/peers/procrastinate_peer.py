"""One run of procrastinate over no-op jobs: applies its schema, defers in bulk, works, prints one JSON object.

Runs in an environment of its own (`make bench` makes it) and imports nothing of Sendledger.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from datetime import datetime

import psycopg
import uvloop
from procrastinate import App, PsycopgConnector


async def noop() -> None:
    """Do nothing, as the channel on the other side does."""


async def measure(dsn: str, options: argparse.Namespace) -> None:
    app = App(
        connector=PsycopgConnector(conninfo=dsn, min_size=options.pool, max_size=options.pool)
    )
    task = app.task(queue="noop")(noop)
    async with (
        app.open_async(),
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as admin,
    ):
        await app.schema_manager.apply_schema_async()
        await task.batch_defer_async(*({} for _ in range(options.jobs)))
        await admin.execute("VACUUM ANALYZE")
        cursor = await admin.execute("SELECT clock_timestamp()")
        [began] = await cursor.fetchone() or [None]
        cpu = time.process_time()
        await app.run_worker_async(
            queues=["noop"],
            wait=False,
            concurrency=options.concurrency,
            delete_jobs=options.delete_jobs,
            install_signal_handlers=False,
        )
        cpu = time.process_time() - cpu
        cursor = await admin.execute(
            "SELECT count(*), max(at) FROM procrastinate_events WHERE type = 'succeeded'"
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
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--pool", type=int, required=True)
    parser.add_argument("--delete-jobs", choices=("never", "successful"), default="never")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    uvloop.run(measure(options.dsn, options))


if __name__ == "__main__":
    main()
