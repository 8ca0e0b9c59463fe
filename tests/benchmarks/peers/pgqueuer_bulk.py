"""One run of pgqueuer's bulk enqueue: each CSV record of standard input becomes a job; prints one JSON object.

Runs in an environment of its own (`pip install .[bench]` makes it) and imports nothing of Sendledger.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Iterator

import psycopg
import uvloop
from pgqueuer.db import AsyncpgDriver, PsycopgDriver
from pgqueuer.queries import Queries

Records = list[list[str]]


async def connect(dsn: str, driver: str) -> AsyncpgDriver | PsycopgDriver:
    if driver == "asyncpg":
        import asyncpg  # noqa: PLC0415 - only this driver needs it

        return AsyncpgDriver(await asyncpg.connect(dsn.partition("?")[0]))
    return PsycopgDriver(await psycopg.AsyncConnection.connect(dsn, autocommit=True))


def chunks(size: int) -> Iterator[Records]:
    """Yield the records of standard input, *size* at a time, the header left out."""
    chunk: Records = []
    reader = csv.reader(sys.stdin)
    next(reader)
    for record in reader:
        chunk.append(record)
        if len(chunk) == size:
            yield chunk
            chunk = []
    yield chunk


async def enqueue(queries: Queries, chunk: Records, *, dedupe: bool) -> None:
    payloads: list[bytes | None] = [json.dumps(record).encode() for record in chunk]
    keys: list[str | None] | None = [record[0] for record in chunk] if dedupe else None
    await queries.enqueue(["send"] * len(chunk), payloads, [0] * len(chunk), dedupe_key=keys)


async def measure(dsn: str, options: argparse.Namespace) -> None:
    queries = Queries(await connect(dsn, options.driver))
    await queries.install()
    began, cpu, jobs = time.monotonic(), time.process_time(), 0
    for chunk in chunks(options.chunk):
        if chunk:
            await enqueue(queries, chunk, dedupe=options.dedupe)
            jobs += len(chunk)
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    print(json.dumps({"jobs": jobs, "seconds": seconds, "cpu_s": cpu}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsn")
    parser.add_argument("--driver", choices=["asyncpg", "psycopg"], required=True)
    parser.add_argument("--chunk", type=int, required=True)
    parser.add_argument("--dedupe", action="store_true")
    options = parser.parse_args()
    uvloop.run(measure(options.dsn, options))


if __name__ == "__main__":
    main()
