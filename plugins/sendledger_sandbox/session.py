"""One SMTP session, server side (RFC 5321), with the scripted outcomes played at its boundaries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from sendledger_sandbox.auth import MECHANISMS, AuthRefused, authenticate
from sendledger_sandbox.commands import CommandRefused, Mail, parse_mail, parse_rcpt
from sendledger_sandbox.journal import Journal, describe
from sendledger_sandbox.relay import ConnectionInfo, Relay
from sendledger_sandbox.script import Phase, ScriptFault, parse_recipient
from sendledger_sandbox.stage import Scripted, SessionDropped, SessionOver, Stage
from sendledger_sandbox.wire import PeerGone, Violation, Wire, fault_of, unstuff

RECIPIENTS_MAX = 1000


@dataclass(slots=True)
class _Transaction:
    """From MAIL to the end of its message. ``asked`` tells a refused recipient from a missing one."""

    mail: Mail
    rcpt: list[str] = field(default_factory=list)
    outcomes: list[Scripted] = field(default_factory=list)
    asked: bool = False


class Session:
    """Serves one connection until either side ends it."""

    def __init__(self, relay: Relay, journal: Journal, wire: Wire, *, number: int) -> None:
        self._relay, self._journal, self._wire, self._number = relay, journal, wire, number
        self._stage = Stage(relay, wire)
        self._tls = relay.implicit_tls
        self._greeted = self._extended = self._authenticated = False
        self._transaction: _Transaction | None = None
        self._mail_refused = False
        self._accepted = 0
        self._commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "EHLO": self._ehlo,
            "HELO": self._helo,
            "STARTTLS": self._starttls,
            "AUTH": self._auth,
            "MAIL": self._mail,
            "RCPT": self._rcpt,
            "DATA": self._data,
            "RSET": self._rset,
            "NOOP": self._noop,
            "VRFY": self._vrfy,
            "QUIT": self._quit,
        }

    async def serve(self) -> None:
        """Hold the session to its end; what the peer does never raises."""
        try:
            await self._hold()
        except (SessionDropped, PeerGone, OSError):
            pass
        finally:
            await self._wire.abort()

    async def _hold(self) -> None:
        try:
            await self._open()
            while True:
                await self._answer(await self._wire.line())
        except SessionOver:
            pass
        except TimeoutError:
            self._wire.reply("421 4.4.2 idle for too long")
        except Violation as violation:
            self._note(violation.reply)
            self._wire.reply(violation.reply)
        await self._wire.hang_up()

    async def _open(self) -> None:
        await self._reach(Phase.CONNECT)
        if not await self._reach(Phase.GREETING):
            raise SessionOver
        if self._relay.refuse_new:
            self._wire.reply("421 4.3.2 not taking connections")
            raise SessionOver
        if self._relay.greeting is None:
            self._wire.reply(f"220 {self._relay.hostname} ESMTP sandbox")
            return
        self._wire.reply_raw(self._relay.greeting)
        if not self._relay.greeting.startswith(b"220"):
            raise SessionOver

    async def _answer(self, line: str) -> None:
        verb, _, argument = line.partition(" ")
        command = self._commands.get(verb.upper())
        if command is None:
            self._refuse("500 5.5.1 command not recognised")
        else:
            await command(argument)

    # --- boundaries ------------------------------------------------------------------------------

    async def _reach(self, phase: Phase, scripted: Sequence[Scripted] | None = None) -> bool:
        """Stop at a boundary; *scripted* is what the whole transaction asked for unless given."""
        if scripted is None:
            scripted = self._transaction.outcomes if self._transaction else ()
        return await self._stage.reach(phase, self._info(), scripted)

    def _info(self) -> ConnectionInfo:
        transaction = self._transaction
        return ConnectionInfo(
            number=self._number,
            tls=self._tls,
            accepted=self._accepted,
            mail_from=transaction.mail.path if transaction else None,
            rcpt=tuple(transaction.rcpt) if transaction else (),
        )

    def _refuse(self, reply: str) -> None:
        """Answer something that a correct peer would not have sent."""
        self._note(reply)
        self._wire.reply(reply)

    def _note(self, reply: str) -> None:
        self._relay.unexpected.append(f"connection {self._number}: {reply}")

    # --- commands --------------------------------------------------------------------------------

    async def _ehlo(self, argument: str) -> None:
        if not argument:
            return self._refuse("501 5.5.4 expected EHLO and a name")
        if not await self._reach(Phase.EHLO):
            return None
        self._greeted = self._extended = True
        self._transaction = None
        *first, last = [f"{self._relay.hostname} at your service", *self._extensions()]
        for text in first:
            self._wire.reply(f"250-{text}")
        return self._wire.reply(f"250 {last}")

    def _extensions(self) -> list[str]:
        offered = ["PIPELINING", f"SIZE {self._relay.size_max_bytes}", "8BITMIME"]
        offered += ["ENHANCEDSTATUSCODES", "DSN", "SMTPUTF8"]
        if self._relay.tls is not None and not self._tls:
            offered.append("STARTTLS")
        if self._relay.credentials is not None:
            offered.append(f"AUTH {' '.join(MECHANISMS)}")
        return offered

    async def _helo(self, argument: str) -> None:
        if not argument:
            return self._refuse("501 5.5.4 expected HELO and a name")
        if not await self._reach(Phase.EHLO):
            return None
        self._greeted, self._extended = True, False
        self._transaction = None
        return self._wire.reply(f"250 {self._relay.hostname}")

    async def _starttls(self, argument: str) -> None:
        if self._relay.tls is None or self._tls:
            return self._refuse("502 5.5.1 STARTTLS is not offered")
        if argument:
            return self._refuse("501 5.5.4 STARTTLS takes no argument")
        await self._wire.start_tls(self._relay.tls)
        # RFC 3207 section 4.2: everything learned in the clear is forgotten.
        self._tls = True
        self._greeted = self._extended = self._authenticated = False
        self._transaction = None
        return None

    async def _auth(self, argument: str) -> None:
        if self._relay.credentials is None:
            return self._refuse("502 5.5.1 AUTH is not offered")
        if not self._extended or self._authenticated or self._transaction is not None:
            return self._refuse("503 5.5.1 AUTH comes once, after EHLO and before MAIL")
        self._relay.auth_tries += 1
        try:
            await authenticate(self._wire, argument, self._relay.credentials)
        except AuthRefused as refused:
            return self._wire.reply(refused.reply)
        self._authenticated = True
        return self._wire.reply("235 2.7.0 authenticated")

    async def _mail(self, argument: str) -> None:
        if not self._greeted or self._transaction is not None:
            return self._refuse("503 5.5.1 MAIL comes after EHLO and outside a transaction")
        self._mail_refused = True
        if self._relay.credentials is not None and not self._authenticated:
            return self._wire.reply("530 5.7.0 authentication required")
        try:
            mail = parse_mail(argument, strict=self._relay.strict)
        except CommandRefused as refused:
            return self._refuse(refused.reply)
        if not await self._reach(Phase.MAIL):
            return None
        if mail.size_bytes > self._relay.size_max_bytes:
            return self._wire.reply("552 5.3.4 message too big")
        self._mail_refused = False
        self._transaction = _Transaction(mail)
        return self._wire.reply("250 2.1.0 Ok")

    async def _rcpt(self, argument: str) -> None:
        transaction = self._transaction
        if transaction is None:
            return self._without_transaction("503 5.5.1 RCPT comes after MAIL")
        transaction.asked = True
        try:
            address = parse_rcpt(argument, utf8=transaction.mail.utf8, strict=self._relay.strict)
        except CommandRefused as refused:
            return self._refuse(refused.reply)
        if len(transaction.rcpt) == RECIPIENTS_MAX:
            return self._wire.reply("452 4.5.3 too many recipients")
        try:
            outcomes = [(address, outcome) for outcome in parse_recipient(address)]
        except ScriptFault as fault:
            return self._wire.reply(f"550 5.3.5 sandbox script: {fault}")
        if not await self._reach(Phase.RCPT, outcomes):
            return None
        transaction.rcpt.append(address)
        transaction.outcomes += outcomes
        return self._wire.reply("250 2.1.5 Ok")

    def _without_transaction(self, reply: str) -> None:
        # Behind a refused MAIL the rest of a pipelined group is no fault of the peer (RFC 2920).
        if self._mail_refused:
            self._wire.reply(reply)
        else:
            self._refuse(reply)

    async def _data(self, argument: str) -> None:
        transaction = self._transaction
        if transaction is None:
            return self._without_transaction("503 5.5.1 DATA comes after RCPT")
        if argument:
            return self._refuse("501 5.5.4 DATA takes no argument")
        if not transaction.asked:
            return self._refuse("503 5.5.1 DATA comes after RCPT")
        if not transaction.rcpt:
            return self._wire.reply("554 5.5.1 no valid recipients")
        if not await self._reach(Phase.DATA):
            self._transaction = None
            return None
        if self._relay.strict and self._wire.has_input:
            raise Violation("521 5.5.1 input before the 354")
        self._wire.reply("354 end with <CRLF>.<CRLF>")
        await self._take(transaction)
        self._transaction = None
        return None

    async def _take(self, transaction: _Transaction) -> None:
        """Read a message and answer for it."""
        await self._wire.wait_for_input()
        await self._reach(Phase.BODY)
        stuffed = await self._wire.message(self._relay.size_max_bytes)
        if not await self._reach(Phase.DOT):
            return
        message = unstuff(stuffed, strict=self._relay.strict) if stuffed is not None else b""
        if stuffed is None or len(message) > self._relay.size_max_bytes:
            self._wire.reply("552 5.3.4 message too big")
            return
        fault = (
            fault_of(stuffed, eight_bit=transaction.mail.eight_bit) if self._relay.strict else None
        )
        if fault is not None:
            self._refuse(fault)
            return
        await self._accept(transaction, message)

    async def _accept(self, transaction: _Transaction, message: bytes) -> None:
        mail = transaction.mail
        entry = describe(
            mail_from=mail.path, envid=mail.envid, rcpt=transaction.rcpt, message=message
        )
        try:
            entry = await self._journal.append(entry, message)
        except OSError:
            self._wire.reply("451 4.3.0 the journal cannot be written")
            return
        self._relay.accepted += 1
        self._accepted += 1
        await self._reach(Phase.ACCEPTED)
        self._wire.reply(f"250 2.0.0 Ok: queued as {entry.n:06d}")
        await self._wire.flush()
        await self._reach(Phase.REPLIED)

    async def _rset(self, _argument: str) -> None:
        self._transaction, self._mail_refused = None, False
        self._wire.reply("250 2.0.0 Ok")

    async def _noop(self, _argument: str) -> None:
        self._wire.reply("250 2.0.0 Ok")

    async def _vrfy(self, _argument: str) -> None:
        self._wire.reply("252 2.1.5 cannot verify, will take the message")

    async def _quit(self, _argument: str) -> None:
        await self._reach(Phase.QUIT)
        self._wire.reply("221 2.0.0 Bye")
        raise SessionOver
