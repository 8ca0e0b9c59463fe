"""One run of the vendor's SDK and nothing of a ledger: a message to each number of a file; prints one JSON object.

The SDK goes over our own HTTP client. The one that comes with it is slower, and not what is measured here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import uvloop
from twilio.rest import Client

from sendledger_sandbox.twilio import ACCOUNT_SID, AUTH_TOKEN, SENDER
from sendledger_twilio.client import HttpClient

PATIENCE = timedelta(seconds=30)


async def session(client: Client, numbers: Iterator[str], text: str) -> int:
    """Send one message after the other; returns how many."""
    done = 0
    for number in numbers:
        await client.messages.create_async(
            to=number, from_=SENDER, body=text, validity_period=36_000, smart_encoded=False
        )
        done += 1
    return done


async def measure(options: argparse.Namespace) -> None:
    numbers = iter(options.numbers.read_text().split())
    text, at_once = options.text, options.sessions
    http = HttpClient(
        connections_max=at_once, idle_max=PATIENCE, connect_within=PATIENCE, answer_within=PATIENCE
    )
    client = Client(ACCOUNT_SID, AUTH_TOKEN, http_client=http)
    client.api.base_url = options.url
    began, cpu = time.monotonic(), time.process_time()
    done = sum(await asyncio.gather(*(session(client, numbers, text) for _ in range(at_once))))
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    await http.aclose()
    print(json.dumps({"event": "done", "done": done, "seconds": seconds, "cpu_s": cpu}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--numbers", type=Path, required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--sessions", type=int, required=True)
    uvloop.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
