"""One message for one recipient: MAIL, RCPT, DATA, the message; and evidence for every way it can end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

from sendledger.plugin import Envelope, Evidence
from sendledger_smtp.pool import SmtpSession
from sendledger_smtp.reply import Reply
from sendledger_smtp.settings import Timeouts
from sendledger_smtp.wire import CLOSING, WireBroken

OK, GO_ON = 2, 3
"""First digits: done, and go on with the message (RFC 5321 section 4.2.1)."""

_UNSAFE = re.compile(r"[\x00-\x20\x7f<>]")
_BARE_END = re.compile(rb"\r\n|\r|\n")
_XTEXT = re.compile(r"[^\x21-\x2a\x2c-\x3c\x3e-\x7e]")


class Transaction:
    """A submission under way. ``handed_over`` turns true right before the write that holds the final dot."""

    def __init__(
        self, session: SmtpSession, envelope: Envelope, return_path: str, timeouts: Timeouts
    ) -> None:
        self._session = session
        self._extensions = session.extensions
        self._envelope = envelope
        self._return_path = return_path
        self._timeouts = timeouts
        self._stage = "mail"
        self.handed_over = False

    async def run(self) -> Evidence:
        """Go through the transaction to its end. Never raises for what the peer does.

        When it is cancelled the session stays out of step, so that nobody uses it again.
        """
        if (fault := self._unfit()) is not None:
            return self._evidence(fault=fault)
        self._session.in_step = False
        try:
            reply = await self._reach_data() or await self._hand_over()
        except WireBroken as broken:
            return self._evidence(fault=broken.fault, literal=broken.literal)
        return self._judge(reply)

    def _unfit(self) -> str | None:
        destination = self._envelope.destination
        if _UNSAFE.search(destination) or _UNSAFE.search(self._return_path):
            return "unsafe-argument"
        if not destination.isascii() and "smtputf8" not in self._extensions:
            return "smtputf8-missing"
        if 0 < _declared_size(self._extensions) < len(self._envelope.message):
            return "too-large"
        return None

    async def _reach_data(self) -> Reply | None:
        """Return the reply that ended the transaction early, or None with the server ready for the message."""
        timeouts = self._timeouts
        steps = (
            ("mail", self._mail(), OK, timeouts.command),
            ("rcpt", self._rcpt(), OK, timeouts.command),
            ("data", b"DATA", GO_ON, timeouts.data_init),
        )
        for stage, command, wanted, patience in steps:
            reply = await self._step(stage, command, patience)
            if reply.digit != wanted:
                return reply
        return None

    async def _step(self, stage: str, command: bytes, patience: timedelta) -> Reply:
        self._stage = stage
        return await self._session.wire.ask(command, patience)

    async def _hand_over(self) -> Reply:
        wire = self._session.wire
        block = data_block(self._envelope.message)
        if not wire.quiet:
            # Something was said, or all is lost, before there was anything to answer: no handoff.
            raise WireBroken("protocol" if wire.spoken else "closed", wire.spoken)
        self._stage = "dot"
        self.handed_over = True
        wire.write(block)
        await wire.drain(self._timeouts.data_block)
        reply = await wire.read_reply(self._timeouts.data_end)
        if reply.digit == OK and not wire.drained:
            raise WireBroken("protocol", reply.literal)
        return reply

    def _judge(self, reply: Reply) -> Evidence:
        accepted = self.handed_over and reply.digit == OK
        if not accepted and reply.digit in {OK, GO_ON}:
            # A positive reply where it is not the answer: whatever follows would be misread.
            return self._evidence(fault="protocol", literal=reply.literal)
        self._session.in_step = reply.code != CLOSING and self._session.wire.drained
        self._session.needs_reset = not accepted
        return self._evidence(reply=reply, reference=reply.reference if accepted else None)

    def _evidence(
        self,
        *,
        reply: Reply | None = None,
        reference: str | None = None,
        fault: str | None = None,
        literal: bytes = b"",
    ) -> Evidence:
        return Evidence(
            stage=self._stage,
            handed_over=self.handed_over,
            answered=reply is not None,
            literal=reply.literal if reply else literal,
            reply_code=reply.code if reply else None,
            enhanced_code=reply.enhanced if reply else None,
            provider_reference=reference,
            fault=fault,
            facts={"violation": "enhanced-class"} if reply and reply.enhanced_disagrees else {},
        )

    def _mail(self) -> bytes:
        parameters = [f"MAIL FROM:<{self._return_path}>"]
        if "size" in self._extensions:
            parameters.append(f"SIZE={len(self._envelope.message)}")
        if not self._envelope.destination.isascii():
            # RFC 6531 section 3.1: who offers SMTPUTF8 must offer 8BITMIME too.
            parameters += ["BODY=8BITMIME", "SMTPUTF8"]
        if "dsn" in self._extensions:
            # Headers alone: a report must not mail the message back to us (RFC 3461 section 4.3).
            parameters += ["RET=HDRS", f"ENVID={xtext(self._envelope.token)}"]
        return " ".join(parameters).encode("ascii")

    def _rcpt(self) -> bytes:
        destination = self._envelope.destination
        parameters = [f"RCPT TO:<{destination}>"]
        if "dsn" in self._extensions:
            parameters.append("NOTIFY=FAILURE,DELAY")
            if destination.isascii():
                parameters.append(f"ORCPT=rfc822;{xtext(destination)}")
        return " ".join(parameters).encode()


def data_block(message: bytes) -> bytes:
    """Return what follows 354, up to and including the final dot (RFC 5321 sections 2.3.8 and 4.5.2).

    Lines end in CRLF whatever ended them before, for a lenient server may take a bare LF for the end
    of a line and a lone dot after it for the end of the message; every leading dot is doubled.
    """
    ends = message.count(b"\r\n")
    if not message.count(b"\n") == message.count(b"\r") == ends:
        message = _BARE_END.sub(b"\r\n", message)
    if message.startswith(b"."):
        message = b"." + message
    message = message.replace(b"\r\n.", b"\r\n..")
    return message + (b".\r\n" if message.endswith(b"\r\n") else b"\r\n.\r\n")


def xtext(text: str) -> str:
    """Encode ASCII *text* for an ESMTP parameter (RFC 3461 section 4)."""
    return _XTEXT.sub(lambda found: f"+{ord(found[0]):02X}", text)


def _declared_size(extensions: Mapping[str, str]) -> int:
    declared = extensions.get("size", "")
    return int(declared) if declared.isascii() and declared.isdigit() else 0
