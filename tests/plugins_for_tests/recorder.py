"""A channel that keeps what it was given and answers 250."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext

from pydantic import BaseModel

from sendledger.plugin import (
    Addressee,
    Capabilities,
    Classification,
    Content,
    Destination,
    DestinationRefused,
    Envelope,
    Evidence,
    Outcome,
    Session,
    Template,
    Writer,
    hookimpl,
)


class RecorderSettings(BaseModel, frozen=True, extra="forbid"):
    sender: str = "office"


settings_model = RecorderSettings


class RecorderWriter:
    def __init__(self, text: Template) -> None:
        self._text = text

    def write(self, addressee: Addressee) -> bytes:
        return self._text.render(addressee.variables).encode()


class Recorder:
    capabilities = Capabilities(parts={"text": False}, required_parts=frozenset({"text"}))

    def __init__(self, settings: RecorderSettings) -> None:
        self._settings = settings
        self.submitted: list[Envelope] = []
        self.closed = False

    @hookimpl
    def sendledger_destination(self, text: str) -> Destination:
        if not text.strip():
            raise DestinationRefused("recorder.empty", "write something")
        return Destination(address=text.strip(), canonical=text.strip().lower())

    @hookimpl
    def sendledger_prepare(self, content: Content) -> Writer:
        return RecorderWriter(content.parts["text"])

    @hookimpl
    def sendledger_session(self) -> AbstractAsyncContextManager[Session]:
        return nullcontext(self)

    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        assert session is self
        self.submitted.append(envelope)
        return Evidence(stage="dot", handed_over=True, answered=True, reply_code=250)

    @hookimpl
    def sendledger_classify(self, channel: str, evidence: Evidence) -> Classification | None:
        word = evidence.facts.get("recorder")
        if word is None:
            return None
        return Classification(rule=f"{channel}.{word}", outcome=Outcome.TRANSIENT)

    def sender_of(self, content_settings: Mapping[str, str]) -> str:
        return content_settings.get("from", self._settings.sender)

    async def aclose(self) -> None:
        self.closed = True


@hookimpl
def sendledger_channel(settings: RecorderSettings) -> Recorder:
    return Recorder(settings)
