"""The HTTP side of ``sendledger serve`` alone: receipts are committed, and nobody folds them.

Prints the port that it listens on.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import timedelta
from pathlib import Path

import uvloop

from sendledger.bootstrap import open_desk, reception
from sendledger.cli.running import collect_rarely
from sendledger.journal.inbox import Inbox
from sendledger.logs import configure_logs
from sendledger.metrics.meters import Meters
from sendledger.settings.address import Address
from sendledger.web.app import build_app
from sendledger.web.serving import serving_http

ANYWHERE = Address(host="127.0.0.1", port=0)


async def serve(config: Path) -> None:
    async with open_desk(config) as desk:
        inbox, meters = Inbox(desk.database), Meters(desk.plan.channels)
        committing = asyncio.create_task(inbox.run())
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        app = build_app(reception(desk, inbox, meters.receipts, lambda: None))
        collect_rarely()
        async with serving_http(app, ANYWHERE, grace=timedelta(seconds=1)) as address:
            print(address.port, flush=True)
            await stopped.wait()
        committing.cancel()


if __name__ == "__main__":
    configure_logs(json=True, level="error")
    uvloop.run(serve(Path(sys.argv[1])))
