"""An installation whose channel is SMS, the provider it speaks to, and the door its receipts come in by."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

from twilio.request_validator import RequestValidator

from acceptance.rig import Site, found_site, write_private
from http_peer import Asked, HttpPeer, response
from reception_kit import PUBLIC_URL, FrontDoor
from sms_kit import ACCOUNT, AUTH_TOKEN, SENDER

FORM_TYPE = "application/x-www-form-urlencoded"
TEXT = "Dear {{name}}, the bus is late."


def sms_site(folder: Path, dsn: str, installation_id: UUID) -> Site:
    """Return an installation that sends SMS by ``sms``, one at a time, under the policy as it is shipped."""
    site = found_site(folder, dsn, installation_id)
    write_private(folder / "token", AUTH_TOKEN)
    site.policy = {"scale": "1"}
    site.settings["channels"] = {"sms": {"plugin": "twilio", "slots": "1", "settings": account()}}
    site.settings["worker"] = {"poll": "100ms", "sweep": "1s"}
    site.settings["http"] = {"listen": "127.0.0.1:0", "public_url": PUBLIC_URL}
    site.batch["channel"] = "sms"
    site.batch["content"] = {"text": TEXT}
    return site


def account(**changes: Any) -> dict[str, Any]:
    """Return the settings of a channel."""
    return {
        "account_sid": ACCOUNT,
        "auth_token": {"$file": "token"},
        "senders": [SENDER],
        "countries": ["US", "PR"],
        **changes,
    }


def point_at(site: Site, url: str, channel: str = "sms", **changes: Any) -> None:
    """Let a channel of *site* speak to what listens at *url*."""
    site.settings["channels"][channel]["settings"] |= {"base_url": url, **changes}
    site.write()


@dataclass(slots=True, kw_only=True)
class Script:
    """What a provider answers to submissions, in turn, and to look-ups; None answers never."""

    answers: list[bytes | None]
    look_up: Callable[[Asked], bytes] | None = None
    posts: list[Asked] = field(default_factory=list)

    async def respond(self, asked: Asked) -> bytes | None:
        """Answer the next request."""
        if asked.method == "GET":
            assert self.look_up is not None, "nobody was to look up"
            return self.look_up(asked)
        self.posts.append(asked)
        given = self.answers.pop(0)
        if given is None:
            await asyncio.Event().wait()
        return given

    @asynccontextmanager
    async def played(self, site: Site, **changes: Any) -> AsyncIterator[HttpPeer]:
        """Play to whatever the channel of *site* asks."""
        async with HttpPeer(self.respond) as peer:
            point_at(site, peer.url, **changes)
            yield peer


def said(step: Mapping[str, Any]) -> bytes:
    """Return the HTTP answer that a step of a case describes."""
    headers = {name.replace("-", "_"): value for name, value in step.get("headers", {}).items()}
    return response(step["status"], json.dumps(step["json"]).encode(), **headers)


async def call_back(door: FrontDoor, url: str, body: str) -> int:
    """Post a status callback as Twilio does, signed over *url*; returns the status of the answer."""
    form = dict(parse_qsl(body, keep_blank_values=True))
    signature = str(RequestValidator(AUTH_TOKEN).compute_signature(url, form))
    headers = {"X-Twilio-Signature": signature, "Content-Type": FORM_TYPE}
    return await door.post(url.removeprefix(PUBLIC_URL), body.encode(), headers)
