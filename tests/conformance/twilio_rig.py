"""The SMS channel against a scripted HTTP peer that accepts, refuses, garbles and tells as Twilio's API could."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, ClassVar
from urllib.parse import parse_qs, urldefrag, urlencode, urlsplit

from twilio.request_validator import RequestValidator

from http_peer import Asked, HttpPeer, response
from sendledger.plugin import Secret
from sendledger.plugin.conformance import Callback, ChannelRig, Fate, Flaw, Reaction, Taken
from sms_kit import ACCOUNT, AUTH_TOKEN, SENDER

GARBAGE = b"\x00\xff\xfe one moment please\r\n\r\n"
REFUSALS: Mapping[Reaction, tuple[int, int]] = {
    Reaction.REFUSE_FOR_NOW: (429, 20429),
    Reaction.REFUSE_ADDRESS: (400, 21211),
    Reaction.REFUSE_MESSAGE: (400, 21617),
    Reaction.REFUSE_SENDER: (400, 21606),
}
FATES: Mapping[Fate, tuple[str, int | None]] = {
    Fate.UNDER_WAY: ("sent", None),
    Fate.ARRIVED: ("delivered", None),
    Fate.LOST: ("undelivered", 30003),
    Fate.UNMAPPED: ("teleported", None),
}
FORM_TYPE = "application/x-www-form-urlencoded; charset=UTF-8"


@dataclass(slots=True, kw_only=True)
class Kept:
    """A message that the provider knows of."""

    form: Mapping[str, str]
    sid: str
    created_at: datetime
    fate: Fate = Fate.UNDER_WAY

    def shown(self) -> dict[str, Any]:
        """Return it as the API shows it."""
        status, error = FATES[self.fate]
        return {
            "body": self.form["Body"],
            "to": self.form["To"],
            "from": self.form["From"],
            "sid": self.sid,
            "status": status,
            "error_code": error,
            "messaging_service_sid": None,
            "date_created": format_datetime(self.created_at),
            "date_updated": format_datetime(self.created_at),
        }


@dataclass(eq=False)
class TwilioPeer(HttpPeer):
    """Takes messages, tells what became of them, and reacts as it is told."""

    kept: dict[str, Kept] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    taken: list[Taken] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self._react)
        self._reaction = Reaction.ACCEPT

    def play(self, reaction: Reaction) -> None:
        """React so from now on."""
        self._reaction = reaction

    async def _react(self, asked: Asked) -> bytes | None:
        reaction = self._reaction
        if asked.method == "POST" and reaction in REFUSALS:
            return self._refuse(asked, *REFUSALS[reaction])
        truth = self._take(asked) if asked.method == "POST" else self._tell(asked)
        match reaction:
            case Reaction.LOSE_ANSWER:
                return None
            case Reaction.GARBLE_ANSWER:
                return GARBAGE
            case Reaction.STALL:
                await asyncio.Event().wait()
        return truth

    def _refuse(self, asked: Asked, status: int, code: int) -> bytes:
        text = f"refused for {asked.form['To']}"
        body = json.dumps({"code": code, "message": text, "status": status})
        return response(status, body.encode())

    def _take(self, asked: Asked) -> bytes:
        form, sid = asked.form, f"SM{len(self.taken):032x}"
        self.kept[sid] = Kept(form=form, sid=sid, created_at=datetime.now(UTC))
        self.addresses[sid] = form.get("StatusCallback", "")
        self.taken.append(
            Taken(
                connection=asked.connection,
                destinations=(form["To"],),
                message=form["Body"].encode(),
                reference=sid,
            )
        )
        shown = self.kept[sid].shown() | {"status": "queued"}
        return response(201, json.dumps(shown).encode())

    def _tell(self, asked: Asked) -> bytes:
        target = urlsplit(asked.target)
        sid = target.path.rpartition("/")[2].removesuffix(".json")
        if sid == "Messages":
            [whom] = parse_qs(target.query)["To"]
            newest = [each.shown() for each in reversed(self.kept.values())]
            listed = [each for each in newest if each["to"] == whom]
            return _found({"messages": listed, "next_page_uri": None})
        known = self.kept.get(sid)
        return response(404, b'{"code": 20404}') if known is None else _found(known.shown())


def _found(shown: Mapping[str, Any]) -> bytes:
    return response(200, json.dumps(shown).encode())


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
    unplayable: ClassVar[Mapping[Any, str]] = {
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

    def callback(
        self, peer: TwilioPeer, taken: Taken, fate: Fate, flaw: Flaw | None = None
    ) -> Callback:
        """Sign what Twilio would post."""
        assert taken.reference is not None
        status, error = FATES[fate]
        said = {
            "AccountSid": f"AC{'9' * 32}" if flaw is Flaw.ANOTHER_ACCOUNT else ACCOUNT,
            "ApiVersion": "2010-04-01",
            "From": SENDER,
            "MessageSid": taken.reference,
            "MessageStatus": status,
            "To": taken.destinations[0],
        }
        if error is not None:
            said["ErrorCode"] = str(error)
        if flaw is Flaw.BROKEN_FORM:
            del said["MessageStatus"]
        url = urldefrag(peer.addresses[taken.reference]).url
        token = "0" * 32 if flaw is Flaw.ANOTHER_KEY else AUTH_TOKEN
        signature = str(RequestValidator(token).compute_signature(url, said))
        headers = {"Content-Type": FORM_TYPE, "X-Twilio-Signature": signature}
        if flaw is Flaw.UNSIGNED:
            del headers["X-Twilio-Signature"]
        return Callback(url=url, headers=headers, body=urlencode(said).encode())

    def settle(self, peer: TwilioPeer, taken: Taken, fate: Fate) -> None:
        """Answer so when it is asked about."""
        assert taken.reference is not None
        peer.kept[taken.reference].fate = fate

    def forget(self, peer: TwilioPeer, taken: Taken) -> None:
        """Know nothing of it any more."""
        assert taken.reference is not None
        del peer.kept[taken.reference]
