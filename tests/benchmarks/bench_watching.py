"""Looking at a ledger of a million rows: a scrape of the metrics, ``sendledger status`` and ``stuck``.

Once with all rows overdue behind a pause, once with all of them settled; the slower counts. The commands are
measured from their start to their end, Python's own start included.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
import urllib.request
from collections import defaultdict
from contextlib import suppress

from benchmarks import rows
from benchmarks.lines import Line, Options, middle, progress, quantile, read_options, say
from benchmarks.stage import Stage, running, staged

DATABASE = "bench_watching"
KINDS = ("due", "settled")
COMMANDS = ("status", "stuck")
COMMAND_S_MAX = 60
SCRAPES = 20
LOOK_S = 0.1
COUNTED = b"sendledger_deliveries{"
"""In a scrape once the whole table has been counted."""
PAUSE = "INSERT INTO sendledger.pause (scope_key, rule, began_by) VALUES ('all', 'operator.paused', 'bench')"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def fetch(url: str) -> tuple[float, bytes]:
    """Return how many seconds a scrape took, and what it gave."""
    began = time.monotonic()
    with urllib.request.urlopen(url, timeout=10) as answer:
        body: bytes = answer.read()
    return time.monotonic() - began, body


async def counted(url: str) -> None:
    """Wait until the metrics show the whole table."""
    async with asyncio.timeout(COMMAND_S_MAX):
        while True:
            with suppress(OSError):
                if COUNTED in (await asyncio.to_thread(fetch, url))[1]:
                    return
            await asyncio.sleep(LOOK_S)


async def scrapes(stage: Stage, dsn: str) -> list[float]:
    """Return how long scrapes of a worker's metrics took."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "sendledger", "work", "--metrics", address]
    command += ["--config", str(stage.settings(slots=1)), "--log-level", "error"]
    async with running(command, stage.environment(dsn)):
        await counted(f"http://{address}/metrics")
        return [
            (await asyncio.to_thread(fetch, f"http://{address}/metrics"))[0] for _ in range(SCRAPES)
        ]


async def command_s(stage: Stage, dsn: str, name: str) -> float:
    """Return how long ``sendledger NAME --json`` takes, of which something must come."""
    command = [sys.executable, "-m", "sendledger", name, "--json"]
    command += ["--config", str(stage.settings(slots=1))]
    began = time.monotonic()
    async with running(command, stage.environment(dsn)) as child:
        assert child.process.stdout is not None
        async with asyncio.timeout(COMMAND_S_MAX):
            out = await child.process.stdout.read()
            code = await child.process.wait()
    if code not in {0, 1} or not out:
        raise AssertionError(f"sendledger {name} ended with {code} and {len(out)} bytes")
    return time.monotonic() - began


async def look(stage: Stage, options: Options, kind: str) -> dict[str, list[float]]:
    """Return how long each way of looking took, over a million rows of *kind*."""
    found: dict[str, list[float]] = defaultdict(list)
    template = rows.template(stage, kind, options.size(1_000_000, quick=100_000))
    with stage.lent(DATABASE, template=template) as dsn:
        with stage.connect(DATABASE) as connection:
            rows.autovacuum(connection)
            connection.execute(PAUSE)
            connection.execute("VACUUM ANALYZE")
        found["scrape"] = await scrapes(stage, dsn)
        for _ in range(options.rounds):
            for name in COMMANDS:
                found[name].append(await command_s(stage, dsn, name))
    progress(f"{kind}: " + ", ".join(f"{name} {middle(s):.3f} s" for name, s in found.items()))
    return found


async def bench(options: Options) -> None:
    with staged(options) as stage:
        looks = {kind: await look(stage, options, kind) for kind in KINDS}
    for name in ("scrape", *COMMANDS):
        kind = max(KINDS, key=lambda kind: middle(looks[kind][name]))
        seconds = looks[kind][name]
        say(
            Line(
                bench=f"watching.{name}",
                value=middle(seconds) * 1000,
                unit="ms",
                must="value < 100" if name == "scrape" else "value < 1000",
                note=f"p95 {quantile(seconds, 0.95) * 1000:.0f} ms, all rows {kind}",
            )
        )


if __name__ == "__main__":
    asyncio.run(bench(read_options(__doc__)))
