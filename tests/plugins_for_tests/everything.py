"""A plugin that implements every hook there is and writes down which were called."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from plugins_for_tests.recorder import Recorder, RecorderSettings
from sendledger.plugin import (
    Asked,
    CallbackRequest,
    Candidate,
    Capabilities,
    Classification,
    Content,
    Destination,
    Envelope,
    Evidence,
    Found,
    Go,
    Receipt,
    Receipts,
    Session,
    Verdict,
    Writer,
    hookimpl,
)

settings_model = RecorderSettings
called: list[str] = []


class Everything(Recorder):
    capabilities = Capabilities(
        parts={"text": False},
        required_parts=frozenset({"text"}),
        receipts=Receipts.DELIVERED,
        look_up=True,
    )

    @hookimpl
    def sendledger_destination(self, text: str) -> Destination:
        called.append("sendledger_destination")
        return super().sendledger_destination(text)

    @hookimpl
    def sendledger_prepare(self, content: Content) -> Writer:
        called.append("sendledger_prepare")
        return super().sendledger_prepare(content)

    @hookimpl
    def sendledger_session(self) -> AbstractAsyncContextManager[Session]:
        called.append("sendledger_session")
        return super().sendledger_session()

    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        called.append("sendledger_submit")
        return await super().sendledger_submit(session, envelope)

    @hookimpl
    def sendledger_classify(self, channel: str, evidence: Evidence) -> Classification | None:
        called.append("sendledger_classify")
        return super().sendledger_classify(channel, evidence)

    @hookimpl
    def sendledger_read_callback(self, request: CallbackRequest) -> Sequence[Receipt]:
        called.append("sendledger_read_callback")
        evidence = Evidence(stage="receipt", handed_over=True, answered=True, literal=request.body)
        return [Receipt(identity="arrived", evidence=evidence)]

    @hookimpl
    async def sendledger_look_up(self, attempts: Sequence[Asked]) -> Sequence[Found]:
        called.append("sendledger_look_up")
        return [Found() for _ in attempts]


@hookimpl
def sendledger_channel(settings: RecorderSettings) -> Everything:
    called.append("sendledger_channel")
    return Everything(settings)


@hookimpl
async def sendledger_authorize(candidates: Sequence[Candidate]) -> Sequence[Verdict]:
    called.append("sendledger_authorize")
    return [Go(until=candidate.now + timedelta(seconds=1)) for candidate in candidates]


@hookimpl
def sendledger_observed() -> None:
    called.append("sendledger_observed")
