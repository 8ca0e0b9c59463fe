"""One configured channel as core calls it: typed, and safe from whatever its plugin does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, cast

from sendledger.ledger.classification import Rule, RuleTable, sound, sound_later
from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.words import Outcome
from sendledger.plugin.calls import call_list, gave
from sendledger.plugin.channel import (
    Addressee,
    Capabilities,
    Channel,
    Content,
    ContentFault,
    Destination,
    Envelope,
    Receipts,
    Session,
    SessionRefused,
    Writer,
)
from sendledger.plugin.checks import Member, module_member
from sendledger.plugin.faults import Faults, PluginFault, contained, described, raised
from sendledger.plugin.receipts import Asked, CallbackRequest, Found, Receipt
from sendledger.plugin.spec import hookimpl

NOT_ASKED = Found(failed="plugin-raised")

UNITS_MAX = 32_767
"""The most units of one message that a ledger can hold."""


class ChannelPort:
    """A sealed channel. Its call lists are resolved; every method asks this channel and no other.

    Where a deployment plugin may stand in, the channel is asked first unless that plugin says
    ``tryfirst``; :meth:`classify` asks the deployment plugins first.
    """

    def __init__(
        self, channel: Channel, own: Member, deployment: Sequence[Member], faults: Faults
    ) -> None:
        self.name = own.name
        self.capabilities: Capabilities = channel.capabilities
        self._channel = channel
        self._faults = faults
        self._rules = _ConfiguredRules()
        members = (own, *deployment)
        judges = (*deployment, module_member("configured rules", self._rules), own)
        self._destination = call_list("sendledger_destination", members)
        self._prepare = call_list("sendledger_prepare", members)
        self._session = call_list("sendledger_session", members)
        self._submit = call_list("sendledger_submit", [own])
        self._classify = call_list("sendledger_classify", judges, excuse=faults.record)
        self._read_callback = call_list("sendledger_read_callback", members)
        self._look_up = call_list("sendledger_look_up", [own])

    def set_rules(self, rules: Sequence[Rule]) -> None:
        """Let *rules* speak after the deployment plugins and before the channel."""
        self._rules.table = RuleTable(rules)

    def destination(self, text: str) -> Destination:
        """Validate and normalise *text*. Raises ``DestinationRefused`` or :class:`PluginFault`."""
        found: Destination | None = self._destination(text=text)
        if found is None:
            raise gave(None, plugin=self.name, hook="sendledger_destination")
        return found

    def prepare(self, content: Content) -> Writer:
        """Compile *content*. Raises ``ContentFault`` or :class:`PluginFault`.

        The writer raises only ``ContentFault``: a plugin that stumbles over one addressee holds one.
        """
        found: Writer | None = self._prepare(content=content)
        if found is None:
            raise gave(None, plugin=self.name, hook="sendledger_prepare")
        return _SafeWriter(found, self.name)

    def session(self) -> AbstractAsyncContextManager[Session]:
        """Lend a ready session. Entering raises ``SessionRefused`` and nothing else of the plugin's.

        Leaving raises nothing of the plugin's and never swallows what the body raised.
        """
        return _SafeSession(self._open, self.name, self._faults)

    async def submit(self, session: Session, envelope: Envelope) -> Evidence:
        """Hand *envelope* over. A plugin's fault is evidence too: from then on nothing is known."""
        try:
            return cast(Evidence, await self._submit(session=session, envelope=envelope))
        except PluginFault as fault:
            self._faults.record(fault)
            return Evidence(stage="submit", fault="plugin-raised", handed_over=True, answered=False)

    def classify(self, evidence: Evidence) -> Classification:
        """Say what *evidence* means; always answers, and never claims what cannot be true of it.

        Deployment plugins, then the configured rules, then the channel, then the default by phase and
        class. A plugin that fails is counted and passed over.
        """
        meant = sound(self._opinion(evidence), evidence)
        if meant.outcome is Outcome.DELIVERED and not self.capabilities.acceptance_is_arrival:
            return dataclasses.replace(meant, outcome=Outcome.ACCEPTED)
        return meant

    def classify_later(self, evidence: Evidence) -> Classification:
        """Say what a receipt or a look-up's find means; asks as :meth:`classify` does.

        It is never less than an acceptance, and arrival only where the channel declares that its
        receipts can tell of it.
        """
        meant = sound_later(self._opinion(evidence))
        arrives = (
            self.capabilities.receipts is Receipts.DELIVERED
            or self.capabilities.acceptance_is_arrival
        )
        if meant.outcome is Outcome.DELIVERED and not arrives:
            return dataclasses.replace(meant, outcome=Outcome.ACCEPTED)
        return meant

    @property
    def reads_callbacks(self) -> bool:
        """Whether the channel's receipts come over HTTP."""
        return self.capabilities.receipts is not Receipts.NONE

    def read_callback(self, request: CallbackRequest) -> Sequence[Receipt]:
        """Verify and read a receipt. Raises ``CallbackRefused`` or :class:`PluginFault`."""
        found: Sequence[Receipt] | None = self._read_callback(request=request)
        if found is None:
            raise gave(None, plugin=self.name, hook="sendledger_read_callback")
        return found

    async def look_up(self, attempts: Sequence[Asked]) -> Sequence[Found]:
        """Ask the provider about *attempts*; same length, same order.

        A plugin's fault says nothing of any of them, not even that there is none.
        """
        try:
            found = cast(Sequence[Found], await self._look_up(attempts=attempts))
            if len(found) == len(attempts):
                return found
            raise gave(found, plugin=self.name, hook="sendledger_look_up")
        except PluginFault as fault:
            self._faults.record(fault)
            return [NOT_ASKED] * len(attempts)

    def _opinion(self, evidence: Evidence) -> Classification | None:
        found: Classification | None
        try:
            found = self._classify(channel=self.name, evidence=evidence)
        except PluginFault as fault:  # a wrapper's, which leaves no answer behind
            self._faults.record(fault)
            found = self._rules.table.classify(evidence)
        return found

    def sender_of(self, settings: Mapping[str, str]) -> str:
        """Name the sender identity that content with *settings* uses. Raises :class:`PluginFault`."""
        try:
            sender: object = self._channel.sender_of(settings)
        except BaseException as error:
            if not contained(error):
                raise
            raise raised(error, plugin=self.name, hook="sender_of") from None
        if not isinstance(sender, str):
            reason = f"gave {type(sender).__name__}; expected str"
            raise PluginFault(reason, plugin=self.name, hook="sender_of")
        return sender

    def units_of(self, message: bytes) -> int | None:
        """Return how many units *message* is charged as, None where the channel counts none.

        A count is information and holds nobody: a plugin that fails at it is counted, and gives None.
        """
        if self.capabilities.units is None:
            return None
        try:
            units: object = cast(Any, self._channel).units_of(message)
        except BaseException as error:
            if not contained(error):
                raise
            self._faults.record(raised(error, plugin=self.name, hook="units_of"))
            return None
        if isinstance(units, int) and 0 <= units <= UNITS_MAX:
            return units
        reason = f"gave {type(units).__name__}; expected an int from 0 to {UNITS_MAX}"
        self._faults.record(PluginFault(reason, plugin=self.name, hook="units_of"))
        return None

    async def aclose(self) -> None:
        """Let the channel give up what it keeps, if it has an ``aclose``; faults are counted only."""
        close = getattr(self._channel, "aclose", None)
        if close is None:
            return
        try:
            await close()
        except BaseException as error:
            if not contained(error):
                raise
            self._faults.record(raised(error, plugin=self.name, hook="aclose"))

    def _open(self) -> AbstractAsyncContextManager[Session]:
        found: AbstractAsyncContextManager[Session] | None = self._session()
        if found is None:
            raise gave(None, plugin=self.name, hook="sendledger_session")
        return found


class _ConfiguredRules:
    """The configured rules of one channel, in the place of a plugin."""

    def __init__(self) -> None:
        self.table = RuleTable()

    @hookimpl
    def sendledger_classify(self, evidence: Evidence) -> Classification | None:
        return self.table.classify(evidence)


class _SafeSession(AbstractAsyncContextManager[Session]):
    """A plugin's session context, of which core sees a session or a refusal."""

    __slots__ = ("_context", "_faults", "_name", "_open")

    def __init__(
        self, open_: Callable[[], AbstractAsyncContextManager[Session]], name: str, faults: Faults
    ) -> None:
        self._open = open_
        self._name = name
        self._faults = faults

    async def __aenter__(self) -> Session:
        try:
            self._context = self._open()
            return await self._context.__aenter__()
        except SessionRefused:
            raise
        except BaseException as error:
            if not contained(error):
                raise
            self._faults.record(_session_fault(error, self._name))
        raise SessionRefused(
            Evidence(stage="session", fault="plugin-raised", handed_over=False, answered=False)
        )

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._context.__aexit__(kind, error, trace)
        except BaseException as fault:
            if fault is error or not contained(fault):
                raise
            self._faults.record(_session_fault(fault, self._name))


def _session_fault(error: BaseException, name: str) -> PluginFault:
    if isinstance(error, PluginFault):
        return error
    return raised(error, plugin=name, hook="sendledger_session")


class _SafeWriter:
    """A plugin's writer, whose every failure is about the one message it failed on."""

    __slots__ = ("_name", "_write", "plain_text")

    def __init__(self, writer: Writer, name: str) -> None:
        self.plain_text = getattr(writer, "plain_text", False) is True
        self._write: Callable[[Addressee], Any] = writer.write
        self._name = name

    def write(self, addressee: Addressee) -> bytes:
        try:
            message = self._write(addressee)
        except ContentFault:
            raise
        except BaseException as error:
            if not contained(error):
                raise
            fault = f"the writer raised {described(error)}"
        else:
            if isinstance(message, bytes):
                return message
            fault = f"the writer gave {type(message).__name__}; expected bytes"
        raise ContentFault("content.plugin-fault", f'channel "{self._name}": {fault}')
