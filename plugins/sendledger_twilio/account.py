"""One account as its requests see it: credentials, host, and the SDK over our own HTTP client."""

from __future__ import annotations

from typing import cast
from urllib.parse import urljoin

from aiohttp.connector import Connection
from twilio.rest import Client

from sendledger_twilio.client import Answer, HttpClient
from sendledger_twilio.settings import TwilioSettings

PAGE_SIZE = 100

# An empty mapping would make the SDK read the variables of the process instead.
_NO_ENVIRONMENT = {"TWILIO": ""}


class Account:
    """Makes requests about the account's messages. Raises ``Unreached`` or ``Unanswered``, never for a status.

    Requests go through the SDK's client, for credentials, regions and headers. Its resources are passed by:
    they give parsed values and exceptions that quote the number, where the ledger wants the bytes.
    """

    def __init__(self, settings: TwilioSettings) -> None:
        user, password = settings.credentials
        self._url = settings.messages_url
        self._http = HttpClient(
            connections_max=settings.sessions_max + settings.look_ups_max,
            idle_max=settings.idle_max,
            connect_within=settings.timeouts.connect,
            answer_within=settings.timeouts.answer,
        )
        self._client = Client(
            user,
            password,
            settings.account_sid,
            region=settings.region,
            edge=settings.edge,
            http_client=self._http,
            environment=_NO_ENVIRONMENT,
            user_agent_extensions=["sendledger"],
        )

    @property
    def host_url(self) -> str:
        """Where requests go, region and edge included."""
        return str(self._client.get_hostname(self._url))

    async def connect(self) -> Connection:
        """Return a connection that stands; released, it is there for the next request."""
        return await self._http.connect(self.host_url)

    async def create(self, fields: dict[str, object]) -> Answer:
        """Create a message."""
        return await self._request("POST", f"{self._url}.json", data=fields)

    async def fetch(self, sid: str) -> Answer:
        """Read one message."""
        return await self._request("GET", f"{self._url}/{sid}.json")

    async def search(self, destination: str, page: str | None = None) -> Answer:
        """Read a page of the messages to *destination*, the newest first; *page* is what a page named next.

        Not by day: a message that still waits in a queue has no day, and no such filter finds it.
        """
        if page is None:
            asked: dict[str, object] = {"To": destination, "PageSize": str(PAGE_SIZE)}
            return await self._request("GET", f"{self._url}.json", params=asked)
        return await self._request("GET", urljoin(self._url, page))

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def _request(
        self,
        method: str,
        url: str,
        *,
        params: dict[str, object] | None = None,
        data: dict[str, object] | None = None,
    ) -> Answer:
        answer = await self._client.request_async(method, url, params=params, data=data)
        return cast(Answer, answer)
