"""A process that accepts every SMS at once: prints its port, and ends when its standard input does."""

from __future__ import annotations

import asyncio
import sys

import uvloop

from http_peer import HttpPeer, response
from sms_kit import SID

TAKEN = response(201, b'{"sid": "%b", "status": "queued", "error_code": null}' % SID.encode())


async def main() -> None:
    async with HttpPeer(lambda _: TAKEN) as peer:
        print(peer.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(main())
