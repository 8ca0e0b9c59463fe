"""A channel with receipts and a look-up, and the office it speaks to: all in one process, and scripted.

A receipt is a form, signed with HMAC-SHA256 over the URL and the body. ``office`` is told by tests how
to answer; what it took it remembers.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, urlencode

from plugins_for_tests.recorder import RecorderWriter
from sendledger.plugin import (
    Asked,
    CallbackRefused,
    CallbackRequest,
    Capabilities,
    Channel,
    Classification,
    Content,
    Destination,
    DestinationRefused,
    Envelope,
    Evidence,
    Found,
    Outcome,
    Receipt,
    Receipts,
    Session,
    SettingsModel,
    Writer,
    hookimpl,
)

SIGNATURE = "x-courier-signature"
OUTCOMES = {
    "taken": Outcome.ACCEPTED,
    "sent": Outcome.ACCEPTED,
    "arrived": Outcome.DELIVERED,
    "away": Outcome.TRANSIENT,
    "never": Outcome.PERMANENT,
}


class CourierSettings(SettingsModel):
    key: str = "a key of the tests"


settings_model = CourierSettings


@dataclass(slots=True)
class Office:
    """What the other side took, and how it answers next: ``lost`` takes a message and never says so.

    ``shows`` is the reference of the letter that it shows whenever it is asked, ``names`` those of letters
    to a destination. ``thinks`` is awaited before it answers that. ``unable`` is a word that the channel
    cannot write any more.
    """

    lost: bool = False
    away: bool = False
    copies: int = 1
    word: str = "sent"
    shows: str | None = None
    thinks: Callable[[], Awaitable[object]] | None = None
    unable: str | None = None
    names: dict[str, str] = field(default_factory=dict)
    submitted: list[Envelope] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def find(self, asked: Asked) -> Found:
        """Answer what became of an attempt."""
        self.asked.append(asked)
        if self.away:
            return Found(failed="away")
        tokens = [letter.token for letter in self.submitted]
        took = asked.envelope.token in tokens
        own = f"letter-{tokens.index(asked.envelope.token) + 1}" if took else None
        shown = self.names.get(asked.envelope.destination) or self.shows or own
        told = evidence(self.word, stage="look-up", reference=shown)
        receipt = Receipt(identity=self.word, evidence=told)
        return Found(receipts=(receipt,) * (self.copies if took else 0))


office = Office()


def begin_anew() -> Office:
    """Return the office as it is at first."""
    for name, value in ((name, getattr(Office(), name)) for name in Office.__slots__):
        setattr(office, name, value)
    return office


def evidence(
    word: str,
    *,
    stage: str = "receipt",
    literal: bytes = b"",
    reference: str | None = "letter-1",
) -> Evidence:
    return Evidence(
        stage=stage,
        handed_over=True,
        answered=True,
        literal=literal,
        provider_reference=reference,
        facts={"word": word},
    )


def signed(url: str, body: bytes, key: str = CourierSettings().key) -> dict[str, str]:
    """Return the headers of a genuine receipt."""
    digest = hmac.new(key.encode(), url.encode() + body, hashlib.sha256).hexdigest()
    return {SIGNATURE: digest, "content-type": "application/x-www-form-urlencoded"}


def form(word: str, event: str | None = None) -> bytes:
    """Return the body of a receipt."""
    return urlencode({"event": event or word, "word": word, "to": "pat@home.test"}).encode()


class Courier:
    capabilities = Capabilities(
        parts={"text": False},
        required_parts=frozenset({"text"}),
        receipts=Receipts.DELIVERED,
        look_up=True,
    )

    def __init__(self, settings: CourierSettings) -> None:
        self._settings = settings

    @hookimpl
    def sendledger_destination(self, text: str) -> Destination:
        if not re.fullmatch(r"\S+@\S+", text):
            raise DestinationRefused("courier.address", "write somebody@somewhere")
        return Destination(address=text, canonical=text.lower())

    @hookimpl
    def sendledger_prepare(self, content: Content) -> Writer:
        text = content.parts["text"]
        if office.unable is not None and office.unable in "".join(text.static):
            raise RuntimeError(office.unable)
        return RecorderWriter(text)

    @hookimpl
    def sendledger_session(self) -> AbstractAsyncContextManager[Session]:
        return nullcontext(self)

    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        assert session is self
        office.submitted.append(envelope)
        if office.lost:
            return Evidence(stage="post", fault="timeout", handed_over=True, answered=False)
        return evidence("taken", stage="post", reference=f"letter-{len(office.submitted)}")

    @hookimpl
    def sendledger_classify(
        self,
        channel: str,  # noqa: ARG002
        evidence: Evidence,
    ) -> Classification | None:
        outcome = OUTCOMES.get(evidence.facts.get("word", ""))
        word = evidence.facts.get("word")
        return None if outcome is None else Classification(rule=f"courier.{word}", outcome=outcome)

    @hookimpl
    def sendledger_read_callback(self, request: CallbackRequest) -> Sequence[Receipt]:
        expected = signed(request.url, request.body, self._settings.key)[SIGNATURE]
        if not hmac.compare_digest(expected, request.headers.get(SIGNATURE, "")):
            raise CallbackRefused("signature")
        fields = parse_qs(request.body.decode())
        if "word" not in fields:
            raise CallbackRefused("malformed", status=400)
        if fields["word"] == ["burst"]:
            raise RuntimeError(fields["to"][0])
        if fields["word"] == ["hello"]:
            return []
        [word], [event] = fields["word"], fields["event"]
        if word == "bytes":
            facts: Any = {"word": b"no text"}
            return [Receipt(identity=event, evidence=replace(evidence(word), facts=facts))]
        return [Receipt(identity=event, evidence=evidence(word, literal=request.body))]

    @hookimpl
    async def sendledger_look_up(self, attempts: Sequence[Asked]) -> Sequence[Found]:
        found = [office.find(asked) for asked in attempts]
        if office.thinks is not None:
            await office.thinks()
        return found

    def sender_of(self, content_settings: Mapping[str, str]) -> str:
        return content_settings.get("from", "office")


@hookimpl
def sendledger_channel(settings: CourierSettings) -> Channel:
    return Courier(settings)
