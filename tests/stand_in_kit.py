"""What tests of the Twilio stand-in share: the real SDK pointed at it, and somebody to call back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl

import aiohttp
from aiohttp import web
from twilio.http.async_http_client import AsyncTwilioHttpClient
from twilio.rest import Client

from sendledger_sandbox.twilio import ACCOUNT_SID, AUTH_TOKEN, SENDER, TwilioStandIn

DEADLINE_S = 10.0
SDK_WARNS = "ignore:.*encode_basic_auth:DeprecationWarning"
"""The vendor's client authenticates in a way that its HTTP library will give up."""
PLEASANT = "+12025550101"


def number(digits: int, *, area: int = 202) -> str:
    """Return the fictitious number of that area that ends in *digits*."""
    return f"+1{area}55501{digits:02}"


@asynccontextmanager
async def sdk(
    stand_in: TwilioStandIn, *, user: str = ACCOUNT_SID, password: str = AUTH_TOKEN
) -> AsyncIterator[Client]:
    """Give the vendor's own client, pointed at the stand-in."""
    http = AsyncTwilioHttpClient()
    client = Client(user, password, ACCOUNT_SID, http_client=http)
    client.api.base_url = stand_in.url
    try:
        yield client
    finally:
        await http.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a raw request was answered with; *body* as it came, *status* None without an answer."""

    status: int | None
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


async def create(
    stand_in: TwilioStandIn, to: str = PLEASANT, *, wait_s: float = DEADLINE_S, **form: str
) -> Answer:
    """Ask for a message on a connection of one's own."""
    asked = {"To": to, "From": SENDER, "Body": "hello"} | form
    given = {name: value for name, value in asked.items() if value}
    return await post(stand_in, "Messages.json", given, wait_s=wait_s)


async def post(
    stand_in: TwilioStandIn, path: str, form: Mapping[str, str], *, wait_s: float = DEADLINE_S
) -> Answer:
    """Post a form to a resource of the account."""
    return await ask(stand_in, "POST", path, form=form, wait_s=wait_s)


async def ask(
    stand_in: TwilioStandIn,
    method: str,
    path: str,
    *,
    form: Mapping[str, str] | None = None,
    wait_s: float = DEADLINE_S,
) -> Answer:
    """Make a request on a connection of one's own, with the account's token."""
    url = f"{stand_in.url}/2010-04-01/Accounts/{ACCOUNT_SID}/{path}"
    known = {"Authorization": aiohttp.encode_basic_auth(ACCOUNT_SID, AUTH_TOKEN)}
    timeout = aiohttp.ClientTimeout(total=wait_s)
    try:
        async with (
            aiohttp.ClientSession(headers=known, timeout=timeout) as client,
            client.request(method, url, data=form) as response,
        ):
            body = await response.read()
            return Answer(status=response.status, body=body, headers=response.headers)
    except (aiohttp.ClientConnectionError, TimeoutError):
        return Answer(status=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A callback as it came in."""

    url: str
    headers: Mapping[str, str]
    form: Mapping[str, str]

    @property
    def status(self) -> str:
        """The status that it tells."""
        return self.form["MessageStatus"]


@dataclass(slots=True, kw_only=True)
class Receiver:
    """Whoever is called back; an async context manager. *answers* says with which status, by their number."""

    answers: Callable[[int], int] = lambda _: 204
    heard: list[Heard] = field(default_factory=list)
    _site: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        server = web.Server(self._hear, access_log=None)
        self._site = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        assert self._site is not None
        self._site.close()

    def url(self, token: str = "TOKEN", more: str = "") -> str:
        """Return the address to be called back at."""
        assert self._site is not None
        port = self._site.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/callbacks/sms/{token}{more}"

    @property
    def statuses(self) -> list[str]:
        """What was told, in the order of arrival."""
        return [heard.status for heard in self.heard]

    async def _hear(self, request: web.BaseRequest) -> web.Response:
        form = dict(parse_qsl((await request.read()).decode(), keep_blank_values=True))
        heard = Heard(url=str(request.url), headers=dict(request.headers), form=form)
        self.heard.append(heard)
        return web.Response(status=self.answers(len(self.heard)))
