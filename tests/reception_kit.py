"""An installation whose channel has receipts and a look-up, its HTTP side, and a client that signs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import aiohttp
import pytest

from acceptance.rig import Site, found_site
from plugins_for_tests import install
from plugins_for_tests.courier import Office, begin_anew, form, office, signed
from sendledger.bootstrap import Desk, open_desk, reception
from sendledger.journal.inbox import Inbox
from sendledger.metrics.meters import Meters
from sendledger.settings.address import Address
from sendledger.store.database import Database
from sendledger.web.app import build_app
from sendledger.web.serving import serving_http

PUBLIC_URL = "https://hooks.school.example"
ANYWHERE = Address(host="127.0.0.1", port=0)
GRACE = timedelta(seconds=5)


@contextmanager
def courier_site(
    folder: Path, dsn: str, installation_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Site, Office]]:
    """Lend an installation whose only channel is the courier, and the office that it speaks to."""
    plugins = folder / "plugins"
    plugins.mkdir()
    install(plugins, "courier-pkg", courier="plugins_for_tests.courier")
    monkeypatch.syspath_prepend(str(plugins))
    site = found_site(folder, dsn, installation_id)
    site.settings["channels"] = {"letter": {"plugin": "courier", "slots": "4"}}
    site.settings["http"] = {"listen": "127.0.0.1:0", "public_url": PUBLIC_URL}
    site.batch["channel"] = "letter"
    site.batch["content"] = {"text": "Dear {{name}}, here it is."}
    site.write()
    yield site, begin_anew()


@dataclass(slots=True, kw_only=True)
class FrontDoor:
    """The HTTP side of an installation, knocked at as a provider would."""

    client: aiohttp.ClientSession
    address: Address
    desk: Desk
    meters: Meters

    async def post(
        self,
        path: str,
        body: bytes,
        headers: dict[str, str] | None = None,
        *,
        query: str = "",
    ) -> int:
        """Post *body*, signed for the public URL unless *headers* are given; returns the status."""
        signature = signed(f"{PUBLIC_URL}{path}{query}", body) if headers is None else headers
        where = f"http://{self.address}{path}{query}"
        async with self.client.post(where, data=body, headers=signature) as answer:
            assert await answer.read() == b""
            return answer.status

    async def tell(self, word: str, event: str | None = None, *, letter: int = 0) -> int:
        """Report *word* of a submitted letter as its provider would; returns the status."""
        return await self.post(path_of(letter), form(word, event))

    def counted(self, name: str, **labels: str) -> float:
        """Return a counter."""
        return self.meters.registry.get_sample_value(name, labels) or 0.0


def path_of(letter: int = 0) -> str:
    """Return the path that the provider was given with a letter."""
    url = office.submitted[letter].callback_url
    assert url is not None
    return url.removeprefix(PUBLIC_URL)


@asynccontextmanager
async def front_door(
    site: Site, *, dsn: str | None = None, hears: Callable[[], bool | None] = lambda: None
) -> AsyncIterator[FrontDoor]:
    """Lend the HTTP side of *site*, by way of *dsn* if given; nothing folds what comes in."""
    async with open_desk(site.config) as opened, Database(dsn or site.dsn) as database:
        desk = replace(opened, database=database)
        meters = Meters(desk.plan.channels)
        inbox = Inbox(desk.database)
        committing = asyncio.create_task(inbox.run())
        app = build_app(reception(desk, inbox, meters.receipts, hears))
        async with (
            aiohttp.ClientSession() as client,
            serving_http(app, ANYWHERE, grace=GRACE) as address,
        ):
            yield FrontDoor(client=client, address=address, desk=desk, meters=meters)
        committing.cancel()
        with suppress(asyncio.CancelledError):
            await committing
