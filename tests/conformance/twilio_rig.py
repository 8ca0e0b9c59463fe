"""The SMS channel against a scripted HTTP peer that accepts, refuses and garbles as Twilio's API could."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, ClassVar

from http_peer import Asked, HttpPeer, response
from sendledger.plugin import Secret
from sendledger.plugin.conformance import ChannelRig, Reaction, Taken
from sms_kit import ACCOUNT, AUTH_TOKEN, SENDER

GARBAGE = b"\x00\xff\xfe one moment please\r\n\r\n"
TAKING = frozenset({Reaction.ACCEPT, Reaction.LOSE_ANSWER, Reaction.GARBLE_ANSWER, Reaction.STALL})
REFUSALS: Mapping[Reaction, tuple[int, int]] = {
    Reaction.REFUSE_FOR_NOW: (429, 20429),
    Reaction.REFUSE_ADDRESS: (400, 21211),
    Reaction.REFUSE_MESSAGE: (400, 21617),
    Reaction.REFUSE_SENDER: (400, 21606),
}


class TwilioPeer(HttpPeer):
    """Takes messages, and reacts to each as it is told."""

    def __init__(self) -> None:
        super().__init__(self._react)
        self.taken: list[Taken] = []
        self._reaction = Reaction.ACCEPT

    def play(self, reaction: Reaction) -> None:
        """React so from now on."""
        self._reaction = reaction

    async def _react(self, asked: Asked) -> bytes | None:
        reaction = self._reaction
        if reaction in REFUSALS:
            status, code = REFUSALS[reaction]
            text = f"refused for {asked.form['To']}"
            body = json.dumps({"code": code, "message": text, "status": status})
            return response(status, body.encode())
        sid = f"SM{len(self.taken):032x}"
        assert reaction in TAKING
        self.taken.append(
            Taken(
                connection=asked.connection,
                destinations=(asked.form["To"],),
                message=asked.form["Body"].encode(),
                reference=sid,
            )
        )
        match reaction:
            case Reaction.LOSE_ANSWER:
                return None
            case Reaction.GARBLE_ANSWER:
                return GARBAGE
            case Reaction.STALL:
                await asyncio.Event().wait()
        said = {"body": asked.form["Body"], "sid": sid, "status": "queued", "error_code": None}
        return response(201, json.dumps(said).encode())


class TwilioRig(ChannelRig):
    """The bundled channel."""

    plugin = "twilio"
    good = ("+1 202-555-0143", "(202) 555 0144", "+17875550145")
    bad = (
        "nobody",
        "32665",
        "+1 202 555 0143 x9",
        "+1 202 555",
        "+1 800 555 0199",
        "+44 7400 123456",
        "+12025550143, +12025550144",
    )
    sessions_max = 2
    unplayable: ClassVar[Mapping[Reaction, str]] = {
        Reaction.REFUSE_SESSION: "an HTTP server has no door: its first word answers a request",
        Reaction.CLOSE_EARLY: "the request is the handoff: there is no step before it to close at",
    }

    @asynccontextmanager
    async def peer(self) -> AsyncIterator[TwilioPeer]:
        """Lend a peer."""
        async with TwilioPeer() as peer:
            yield peer

    def settings(self, peer: TwilioPeer, *, answer_within: timedelta) -> Mapping[str, Any]:
        """Point the channel at the peer."""
        return {
            "account_sid": ACCOUNT,
            "auth_token": Secret(AUTH_TOKEN),
            "senders": [SENDER],
            "countries": ["US", "PR"],
            "default_region": "US",
            "base_url": peer.url,
            "sessions_max": str(self.sessions_max),
            "timeouts": {"answer": answer_within},
        }

    def structure(self, message: bytes) -> object:
        """Return nothing: a body is all text, and the form around it is the protocol's."""
        del message
        return None
