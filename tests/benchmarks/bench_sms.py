"""SMS handed over and called back by one core: our channel beside the vendor's own client and validator.

The next hop is a process of its own that accepts everything. The vendor's client is asked for what we do:
``messages.create_async`` with its asynchronous HTTP client, as many at once.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import parse_qs, urlencode

import uvloop
from twilio.http.async_http_client import AsyncTwilioHttpClient
from twilio.request_validator import RequestValidator
from twilio.rest import Client

from benchmarks.lines import Line, Options, middle, progress, read_options, say
from benchmarks.stage import TESTS
from sendledger.plugin import CallbackRequest
from sendledger_twilio.callback import read_callback
from sms_kit import (
    ACCOUNT,
    AUTH_TOKEN,
    BODY,
    PLEASANT,
    SENDER,
    SID,
    TOKEN,
    channel_for,
    hand_over,
    settings_for,
)

AT_ONCE = 50
URL = f"https://hooks.school.example/callbacks/sms/{TOKEN}"
SAID = {
    "AccountSid": ACCOUNT,
    "ApiVersion": "2010-04-01",
    "From": SENDER,
    "MessageSid": SID,
    "MessageStatus": "delivered",
    "SmsSid": SID,
    "SmsStatus": "delivered",
    "To": PLEASANT,
}

Send = Callable[[], Awaitable[object]]


@contextmanager
def answering() -> Iterator[str]:
    """Lend the base of the addresses of a provider that accepts everything."""
    command = [sys.executable, "-m", "benchmarks.answering"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TESTS
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


@asynccontextmanager
async def ours(url: str) -> AsyncIterator[Send]:
    channel = channel_for(url, sessions_max=str(AT_ONCE))
    yield lambda: hand_over(channel)
    await channel.aclose()


@asynccontextmanager
async def theirs(url: str) -> AsyncIterator[Send]:
    http = AsyncTwilioHttpClient()
    client = Client(ACCOUNT, AUTH_TOKEN, http_client=http)
    client.api.base_url = url
    yield lambda: client.messages.create_async(
        to=PLEASANT, from_=SENDER, body=BODY, validity_period=36_000, smart_encoded=False
    )
    await http.close()


async def rate(send: Send, count: int) -> float:
    """Return how many were handed over per second."""
    left = iter(range(count))

    async def hand_over_some() -> None:
        for _ in left:
            await send()

    began = time.perf_counter()
    await asyncio.gather(*(hand_over_some() for _ in range(AT_ONCE)))
    return count / (time.perf_counter() - began)


async def submitted(options: Options, url: str) -> Line:
    count = options.size(5_000, quick=200)
    found: dict[str, list[float]] = {"ours": [], "theirs": []}
    async with ours(url) as our_send, theirs(url) as their_send:
        for _ in range(options.rounds):
            for name, send in (("ours", our_send), ("theirs", their_send)):
                found[name].append(await rate(send, count))
    return Line(
        bench="sms.submitted",
        value=middle(found["ours"]),
        unit="messages/s",
        versus=middle(found["theirs"]),
        must="ratio >= 1",
        note=f"{AT_ONCE} at once; beside messages.create_async with the vendor's HTTP client",
    )


def called_back(options: Options) -> Line:
    count = options.size(10_000, quick=200)
    vendor, settings = RequestValidator(AUTH_TOKEN), settings_for()
    signature, body = str(vendor.compute_signature(URL, SAID)), urlencode(SAID)
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "x-twilio-signature": signature,
    }
    request = CallbackRequest(token=TOKEN, url=URL, headers=headers, body=body.encode())

    def verify() -> object:
        form = {name: values[0] for name, values in parse_qs(body).items()}
        return vendor.validate(URL, form, signature)

    found: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(options.rounds):
        found["ours"].append(_times(lambda: read_callback(request, settings), count))
        found["theirs"].append(_times(verify, count))
    return Line(
        bench="sms.called_back",
        value=middle(found["ours"]),
        unit="receipts/s",
        versus=middle(found["theirs"]),
        note="verified and read, beside the vendor's validator alone",
    )


def _times(act: Callable[[], object], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        act()
    return count / (time.perf_counter() - began)


def main() -> None:
    options = read_options(__doc__)
    progress("submitting")
    with answering() as url:
        say(uvloop.run(submitted(options, url)))
    progress("calling back")
    say(called_back(options))


if __name__ == "__main__":
    main()
