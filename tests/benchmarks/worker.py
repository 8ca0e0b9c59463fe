"""A worker process under measurement: ``sendledger work`` with the no-op channel, telling what happens.

Prints JSON lines: ``ready`` once the ledger is open, ``marked`` when a marked destination is submitted,
and ``done`` at the end with what was counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.noop import Noop
from sendledger.bootstrap import open_desk, workshop
from sendledger.cli.running import collect_rarely
from sendledger.logs import configure_logs
from sendledger.store import deliveries
from sendledger.store.database import Connection
from sendledger.store.deliveries import Claimed, ClaimRequest
from sendledger.work.worker import Drain, Worker

CONNECTIONS_MAX = 12
LOOK_S = 0.02

claims: list[tuple[float, float, int]] = []


def tell(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


def time_claims() -> None:
    """Write down of every claim when it ended, how long it took and how many rows it gave."""
    claim = deliveries.claim_deliveries

    async def timed(connection: Connection, request: ClaimRequest) -> list[Claimed]:
        began = time.monotonic()
        rows = await claim(connection, request)
        ended = time.monotonic()
        claims.append((ended, ended - began, len(rows)))
        return rows

    deliveries.claim_deliveries = timed


async def stop_after(worker: Worker, accepted: int) -> None:
    """Stop *worker* in order once so many are accepted."""
    while worker.progress.outcomes["accepted"] < accepted:  # noqa: ASYNC110 - counts have no event
        await asyncio.sleep(LOOK_S)
    worker.stop.stop()


async def work(options: argparse.Namespace) -> None:
    async with open_desk(options.config, connections_max=CONNECTIONS_MAX) as desk:
        worker = Worker(workshop(desk))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.interrupt)
        began = (await desk.database.server()).now
        tell("ready", cpu_s=time.process_time())
        cpu = time.process_time()
        stopping = None
        if options.stop_after:
            stopping = asyncio.create_task(stop_after(worker, options.stop_after))
        collect_rarely()
        await worker.run(drain=Drain(within=timedelta(0)) if options.drain else None)
        if stopping is not None:
            stopping.cancel()
        tell(
            "done",
            began_at=began.isoformat(),
            cpu_s=time.process_time() - cpu,
            outcomes=dict(worker.progress.outcomes),
            in_flight_peak=worker.progress.in_flight_peak,
            claims=claims,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument("--drain", action="store_true", help="end when nothing is due")
    parser.add_argument("--stop-after", type=int, default=0, help="end when so many are accepted")
    options = parser.parse_args()
    configure_logs(json=True, level="error")
    time_claims()
    Noop.on_marked = staticmethod(lambda who, at: tell("marked", destination=who, at=at))
    uvloop.run(work(options))


if __name__ == "__main__":
    main()
