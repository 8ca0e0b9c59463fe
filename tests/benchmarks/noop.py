"""A channel that takes everything at once: what is left to measure is the ledger and the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext

from pydantic import BaseModel

from sendledger.plugin import (
    Addressee,
    Capabilities,
    Content,
    Destination,
    Envelope,
    Evidence,
    Session,
    Template,
    Writer,
    hookimpl,
)

MARKED = "marked"
"""A destination that begins with it is told to :attr:`Noop.on_marked` when it is submitted."""

TAKEN = Evidence(
    stage="dot",
    handed_over=True,
    answered=True,
    literal=b"250 2.0.0 taken",
    reply_code=250,
    enhanced_code="2.0.0",
)


class NoopSettings(BaseModel, frozen=True, extra="forbid"):
    """It has none."""


settings_model = NoopSettings


class NoopWriter:
    def __init__(self, text: Template) -> None:
        self._text = text

    def write(self, addressee: Addressee) -> bytes:
        return self._text.render(addressee.variables).encode()


class Noop:
    """``on_marked`` hears of a marked destination and the monotonic instant of its submission."""

    capabilities = Capabilities(parts={"text": False}, required_parts=frozenset({"text"}))
    on_marked: Callable[[str, float], None] = staticmethod(lambda *_: None)

    @hookimpl
    def sendledger_destination(self, text: str) -> Destination:
        return Destination(address=text, canonical=text)

    @hookimpl
    def sendledger_prepare(self, content: Content) -> Writer:
        return NoopWriter(content.parts["text"])

    @hookimpl
    def sendledger_session(self) -> AbstractAsyncContextManager[Session]:
        return nullcontext(self)

    @hookimpl
    async def sendledger_submit(self, envelope: Envelope) -> Evidence:
        if envelope.destination.startswith(MARKED):
            type(self).on_marked(envelope.destination, time.monotonic())
        return TAKEN

    def sender_of(self, content_settings: Mapping[str, str]) -> str:
        return content_settings.get("from", "office")


@hookimpl
def sendledger_channel() -> Noop:
    return Noop()
