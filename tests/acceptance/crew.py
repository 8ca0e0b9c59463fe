"""Several worker processes of one site, and what can be counted of their work."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from acceptance.ledger_checker import violations
from acceptance.rig import Site, ended, terminate, until
from sendledger_sandbox import CaptureServer, read_journal

Worker = asyncio.subprocess.Process

NEVER = "1000h"
"""A poll that never comes within a test: whoever wakes before was told to."""


@asynccontextmanager
async def crew(site: Site, count: int = 2, *options: str) -> AsyncIterator[list[Worker]]:
    """Run *count* worker processes; they end in order when the block does."""
    async with AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(site.process("work", *options)) for _ in range(count)
        ]
        yield workers
        for worker in workers:
            if worker.returncode is None:
                terminate(worker)
                ran = await ended(worker)
                assert ran.code == 0, ran.err
                assert "Traceback" not in ran.err


async def at_work(site: Site, count: int = 2) -> None:
    """Wait until *count* workers have told of themselves."""
    await until(lambda: site.count("worker") == count)


def count(site: Site, condition: str) -> int:
    """Return how many deliveries there are of which *condition* holds."""
    [(found,)] = site.select(f"SELECT count(*) FROM sendledger.delivery AS d WHERE {condition}")
    return int(found)


def count_open(site: Site) -> int:
    return count(site, "awaits = 'result'")


def all_submitted(site: Site) -> bool:
    return count(site, "status <> 'submitted'") == 0


def hold_to_account(site: Site, relay: CaptureServer, planned: dict[str, str]) -> None:
    assert violations(site.dsn, relay.journal, planned.keys()) == []
    assert set(Counter(entry.rcpt for entry in read_journal(relay.journal)).values()) == {1}
