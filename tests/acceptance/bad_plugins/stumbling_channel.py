"""The SMTP channel, stumbling over some recipients: before the handoff, after it, or over its own answer."""

from __future__ import annotations

from sendledger.plugin import Envelope, Evidence, Session, hookimpl
from sendledger_smtp import SmtpChannel, SmtpSettings

settings_model = SmtpSettings


class Stumbling(SmtpChannel):
    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        if envelope.destination.startswith("before"):
            raise LookupError(f"who is {envelope.destination}?")
        evidence = await super().sendledger_submit(session, envelope)
        if envelope.destination.startswith("after"):
            raise RuntimeError(f"{envelope.destination} has it, but the log is full")
        if envelope.destination.startswith("lie"):
            return f"250 {envelope.destination}"  # type: ignore[return-value]
        return evidence


@hookimpl
def sendledger_channel(settings: SmtpSettings) -> Stumbling:
    return Stumbling(settings)
