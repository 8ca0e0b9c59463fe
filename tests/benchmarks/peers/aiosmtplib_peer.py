"""One run of aiosmtplib: many messages of the same bytes over sessions that are kept; prints one JSON object.

Imports nothing of Sendledger. ``--call sendmail`` is what its pages show; ``--call steps`` is MAIL, RCPT and
DATA one by one, which spares some work of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import aiosmtplib
import uvloop

SENDER, RECIPIENT = "reports@school.example", "parent{}@home.example"


async def sendmail(client: aiosmtplib.SMTP, number: int, message: bytes) -> None:
    await client.sendmail(SENDER, RECIPIENT.format(number), message)


async def steps(client: aiosmtplib.SMTP, number: int, message: bytes) -> None:
    await client.mail(SENDER)
    await client.rcpt(RECIPIENT.format(number))
    await client.data(message)


CALLS = {"sendmail": sendmail, "steps": steps}


async def session(options: argparse.Namespace, numbers: Iterator[int], message: bytes) -> None:
    client = aiosmtplib.SMTP(hostname="127.0.0.1", port=options.port, start_tls=False)
    async with client:
        await client.ehlo()
        for number in numbers:
            await CALLS[options.call](client, number, message)


async def measure(options: argparse.Namespace) -> None:
    message = options.message.read_bytes()
    numbers = iter(range(options.messages))
    began, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*(session(options, numbers, message) for _ in range(options.sessions)))
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    done = options.messages - sum(1 for _ in numbers)
    print(json.dumps({"event": "done", "done": done, "seconds": seconds, "cpu_s": cpu}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--call", choices=sorted(CALLS), required=True)
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--sessions", type=int, required=True)
    parser.add_argument("--message", type=Path, required=True)
    uvloop.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
