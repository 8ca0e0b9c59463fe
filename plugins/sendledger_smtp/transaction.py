"""One message for one recipient: MAIL, RCPT, DATA, the message; and evidence for every way it can end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

from sendledger.plugin import Envelope, Evidence
from sendledger_smtp.pipelining import GO_ON, OK, REFUSED, Group, Pipelining
from sendledger_smtp.pool import SmtpSession
from sendledger_smtp.reply import Reply
from sendledger_smtp.settings import Timeouts
from sendledger_smtp.wire import CLOSING, WireBroken

LEFTOVER_MAX = timedelta(seconds=10)
"""How long what a group still owes is waited for behind a refusal: it can only keep the session of use."""

_UNSAFE = re.compile(r"[\x00-\x20\x7f<>]")
_BARE_END = re.compile(rb"\r\n|\r|\n")
_XTEXT = re.compile(r"[^\x21-\x2a\x2c-\x3c\x3e-\x7e]")


class Transaction:
    """A submission under way. ``handed_over`` turns true right before the write that holds the final dot."""

    def __init__(
        self,
        session: SmtpSession,
        envelope: Envelope,
        return_path: str,
        timeouts: Timeouts,
        pipelining: Pipelining,
    ) -> None:
        self._session = session
        self._extensions = session.extensions
        self._envelope = envelope
        self._return_path = return_path
        self._timeouts = timeouts
        self._pipelining = pipelining
        self._stage = "mail"
        self._owes = False
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
        if self._pipelining.serves(self._extensions):
            return await self._ask_together()
        return await self._ask_singly()

    async def _ask_singly(self) -> Reply | None:
        for stage, command, wanted in (
            ("mail", self._mail(), OK),
            ("rcpt", self._rcpt(), OK),
            ("data", b"DATA", GO_ON),
        ):
            self._stage = stage
            reply = await self._session.wire.ask(command, self._patience(stage))
            if reply.digit != wanted:
                return reply
        return None

    async def _ask_together(self) -> Reply | None:
        """Ask for all three in one round trip, and judge by all replies together."""
        group = Group()
        try:
            await self._read_group(group)
        except WireBroken as broken:
            return self._broken_in(group, broken)
        finally:
            self._stage = group.stage
        if group.whole:
            self._pipelining.answered()
        return group.refusal

    async def _read_group(self, group: Group) -> None:
        wire = self._session.wire
        commands = b"\r\n".join((self._mail(), self._rcpt(), b"DATA"))
        group.take(await wire.ask(commands, self._timeouts.command))
        while (stage := group.awaits) is not None:
            patience = self._patience(stage)
            if group.refusal is not None:
                patience = min(patience, LEFTOVER_MAX)
            group.take(await wire.read_reply(patience))
        if group.refusal is None:
            group.refusal = wire.unasked()
        elif group.wants_message:
            await self._withdraw()
        self._owes |= group.closing

    async def _withdraw(self) -> None:
        """Give nothing to a server that wants a message for nobody: a lone dot (RFC 2920 section 3.1)."""
        reply = await self._session.wire.ask(b".", LEFTOVER_MAX)
        self._owes = reply.digit < REFUSED or reply.code == CLOSING

    def _broken_in(self, group: Group, broken: WireBroken) -> Reply:
        """Return the refusal that stands all the same. Raises :class:`WireBroken` when there is none."""
        if broken.fault == "protocol":
            self._pipelining.lost_count()
            raise WireBroken("unsynchronised", group.literal + broken.literal) from None
        if group.begun or not self._session.reused:
            self._pipelining.broken()
        if group.refusal is None:
            raise broken
        self._owes = True
        return group.refusal

    def _patience(self, stage: str) -> timedelta:
        return self._timeouts.data_init if stage == "data" else self._timeouts.command

    async def _hand_over(self) -> Reply:
        wire = self._session.wire
        block = data_block(self._envelope.message)
        # Something said, or all lost, before there was anything to answer: no handoff.
        if (goodbye := wire.unasked()) is not None:
            return goodbye
        if not wire.quiet:
            raise WireBroken("closed")
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
        leaving = self._owes or reply.code == CLOSING
        self._session.in_step = not leaving and self._session.wire.drained
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
