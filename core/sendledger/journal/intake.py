"""From a recipient as read to an intent, or to the reason why there can be none.

Everything that the recipients of a batch share is worked out once; a recipient costs plain functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sendledger.content import CompiledContent, TemplateError, UnusableValue, load_content
from sendledger.content.tags import fault_at, first_use
from sendledger.content.typesetting import Typeset, typeset
from sendledger.journal.batch import (
    DESTINATION,
    RECIPIENT,
    VARIABLE,
    Batch,
    BatchFault,
    Entry,
    Reject,
    Row,
    checked,
)
from sendledger.journal.intents import Intents, Written
from sendledger.journal.plain import PlainTexts
from sendledger.journal.refused import Refused, unwritable
from sendledger.journal.variables import VariableRefused, write_variables
from sendledger.keys import KeyRing
from sendledger.ledger.identity import (
    IdentityError,
    identity_text,
)
from sendledger.ledger.words import Lane
from sendledger.plugin import (
    Addressee,
    Attachment,
    Content,
    ContentFault,
    Destination,
    DestinationRefused,
    Writer,
)
from sendledger.plugin.faults import PluginFault
from sendledger.plugin.host import PluginHost
from sendledger.plugin.port import ChannelPort
from sendledger.store.new_intents import NewIntent
from sendledger.store.planning import NewBatch

SAMPLE_TOKEN = "a" * 44
_SAMPLE_VALUE = "x"
_Addressed = tuple[str, Destination, Row]

Given = TypeVar("Given")
Made = TypeVar("Made")


class Intake:
    """The recipients' way into one batch, on one channel; reads no clock and touches no database."""

    def __init__(self, batch: Batch, port: ChannelPort, keys: KeyRing) -> None:
        """Compile the content of *batch* for the channel behind *port*.

        Raises :class:`BatchFault` for a label, an instant or content that can never be sent, and
        ``PluginFault``.
        """
        typeset = _typeset(batch, port)
        self.authored = typeset.authored
        self.batch = checked(
            replace(batch, parts=typeset.parts, settings=_settings(batch, port), inline_css=False)
        )
        self.content = _compile(self.batch, port)
        self.names = tuple(sorted(self.content.names))
        self.inner = self.content.names - self.content.variables
        self.template_revision = bytes.fromhex(self.content.revision_hex)
        self._port = port
        self._written = batch.parts
        self._writer = _prepare(self.content, port)
        self._plain = PlainTexts(self.names, self._writer)
        self._intents = Intents(self.batch, keys, revision_hex=self.content.revision_hex)

    def header(self, content_id: int) -> NewBatch:
        """Return the batch header, with the stored content as *content_id*. Raises ``PluginFault``."""
        batch, channel = self.batch, self._port.name
        return NewBatch(
            report=batch.report,
            channel=channel,
            content_revision=batch.content_revision,
            purpose=batch.purpose,
            lane=batch.lane,
            content_id=content_id,
            authorization_id=batch.authorization.id,
            authorized_by=batch.authorization.by,
            authorized_at=batch.authorization.at,
            scope_keys=[
                "all",
                f"channel:{channel}",
                f"sender:{channel}/{self._port.sender_of(batch.settings)}",
                f"purpose:{batch.purpose}",
                f"batch:{batch.report}/{batch.content_revision}/{channel}",
            ],
        )

    def fault(self, name: str, sentence: str) -> BatchFault:
        """Return a fault about the variable *name*, with the place where the content first uses it."""
        for part, source in self._written.items():
            if (start := first_use(source, name)) is not None:
                error = fault_at(source, start, sentence, part=part)
                return BatchFault(("content", part), sentence, line=error.line, column=error.column)
        return BatchFault(("content",), sentence)

    def read(self, row: Row) -> NewIntent | Reject:
        """Return the intent of *row*, which the channel can write and address; never raises for a row."""
        return self.read_all([row])[0]

    def read_all(self, entries: Sequence[Entry]) -> Sequence[NewIntent | Reject]:
        """Return what :meth:`read` does for each of *entries*, in order; a reject stays what it is."""
        addressed = _passed(entries, self._address_all)
        return _passed(_passed(addressed, self._write_all), self._intents.make)

    def message(self, row: Row, attachments: tuple[Attachment, ...] = ()) -> bytes | Reject:
        """Return the message for *row* as it would go on the wire, but for its token and its date."""
        found = self.read(row)
        if isinstance(found, Reject):
            return found
        key = found.intent_key
        whom = _addressee(key, found.destination, self._values(row.variables))
        return self._writer.write(replace(whom, attachments=attachments))

    def _address_all(self, rows: Sequence[Row]) -> list[_Addressed | Reject]:
        return [self._address(row) for row in rows]

    def _address(self, row: Row) -> _Addressed | Reject:
        try:
            return _recipient(row.recipient_id), self._destination(row.destination), row
        except Refused as refused:
            return refused.reject(row.line)

    def _write_all(self, addressed: Sequence[_Addressed]) -> list[Written | Reject]:
        addresses = [destination.address for _, destination, _ in addressed]
        texts = self._plain.texts(addresses, [row.variables for _, _, row in addressed])
        return [
            self._write(one) if text is None else (*one, text)
            for one, text in zip(addressed, texts, strict=True)
        ]

    def _write(self, addressed: _Addressed) -> Written | Reject:
        recipient, destination, row = addressed
        try:
            return *addressed, self._tried(recipient, destination, row.variables)
        except Refused as refused:
            return refused.reject(row.line)

    def _tried(self, recipient: str, destination: Destination, given: Mapping[str, Any]) -> str:
        """Return the variables in *given* as they are stored; a message was written with them."""
        key = self._intents.key_of(recipient)
        variables = self._values(given)
        text = _variables_text(variables)
        self._try_writing(key, destination, variables)
        self._plain.prove(lambda texts: self._fault(key, destination, texts) is None)
        return text

    def _values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the content may look up, and nothing else of a person; a blank text is no value.

        What is looked up inside of sections only is left out when it has none: it is the items' there.
        """
        values = {name: given.get(name) for name in self.names}
        for name, value in values.items():
            if isinstance(value, str) and not value.strip():
                values[name] = None
        for name in self.inner:
            if values[name] is None:
                del values[name]
        return values

    def _destination(self, text: str) -> Destination:
        text = text.strip(" \t")
        if not text:
            raise Refused(DESTINATION, "the destination is empty", "fill it in")
        if "\0" in text:
            raise Refused(DESTINATION, "the destination holds a NUL character", "take it out")
        try:
            return self._port.destination(text)
        except DestinationRefused as refused:
            raise Refused(DESTINATION, refused.reason, refused.remedy) from None
        except PluginFault as fault:
            raise Refused(DESTINATION, str(fault), "report it to the plugin's authors") from None

    def _try_writing(self, key: bytes, destination: Destination, variables: dict[str, Any]) -> None:
        """Write the message once and throw it away: what cannot be written must not be planned."""
        reason = self._fault(key, destination, variables)
        if reason is None:
            return
        self._refuse_values(variables)
        for name in self.names:
            # The culprit is the variable without which the message can be written.
            if self._fault(key, destination, {**variables, name: _SAMPLE_VALUE}) is None:
                raise unwritable(VARIABLE + name, reason, "correct the value")
        raise unwritable("", reason, "correct the content or the row")

    def _fault(
        self, key: bytes, destination: Destination, variables: Mapping[str, Any]
    ) -> str | None:
        try:
            self._writer.write(_addressee(key, destination.address, variables))
        except ContentFault as fault:
            return fault.reason
        return None

    def _refuse_values(self, variables: dict[str, Any]) -> None:
        """Refuse a row without a value that a part shows, or with one that cannot be shown."""
        for part in self.content.parts.values():
            try:
                part.render(variables)
            except UnusableValue as error:
                reason = f"found a {error.kind}; the content shows a text or a number"
                raise Refused(_variable(error), reason, "correct the value") from None
            except KeyError as error:
                path = str(error.args[0])
                reason = "the value is empty" if path in variables else f"{path} has no value"
                raise Refused(_variable(error), reason, "fill it in") from None


def _passed(
    found: Sequence[Given | Reject], step: Callable[[list[Given]], Sequence[Made | Reject]]
) -> Sequence[Made | Reject]:
    """Return what *step* makes of those found; whoever is rejected stays in place."""
    passed = [one for one in found if not isinstance(one, Reject)]
    made = step(passed)
    if len(passed) == len(found):
        return made
    next_made = iter(made)
    return [one if isinstance(one, Reject) else next(next_made) for one in found]


def open_intake(batch: Batch, host: PluginHost, keys: KeyRing) -> Intake:
    """Return the intake of *batch* on its channel. Raises :class:`BatchFault` or ``PluginFault``."""
    channel = host.channels.get(batch.channel)
    if channel is None:
        known = ", ".join(host.channels) or "none"
        raise BatchFault(("channel",), f"no such channel is configured; configured: {known}")
    return Intake(batch, channel, keys)


def _typeset(batch: Batch, port: ChannelPort) -> Typeset:
    try:
        return typeset(batch.parts, port.capabilities.parts, inline_css=batch.inline_css)
    except TemplateError as error:
        raise _of_template(error) from None


def _settings(batch: Batch, port: ChannelPort) -> Mapping[str, str]:
    """Return the content's own settings; whether it offers a way out is the lane's to say, if nobody does."""
    if not port.capabilities.unsubscribe:
        return batch.settings
    return {"unsubscribe": "yes" if batch.lane is Lane.BULK else "no", **batch.settings}


def _of_template(error: TemplateError) -> BatchFault:
    path = ("content", error.part)
    return BatchFault(path, error.sentence, line=error.line, column=error.column)


def _compile(batch: Batch, port: ChannelPort) -> CompiledContent:
    capabilities = port.capabilities
    try:
        return load_content(
            batch.parts,
            capabilities.parts,
            settings=batch.settings,
            required=capabilities.required_parts,
        )
    except TemplateError as error:
        raise _of_template(error) from None


def _prepare(content: CompiledContent, port: ChannelPort) -> Writer:
    compiled = Content(
        revision=content.revision_hex,
        parts=content.parts,
        settings=content.settings,
        rehearsal=True,
    )
    try:
        return port.prepare(compiled)
    except ContentFault as fault:
        raise BatchFault(("content",), f"{fault.reason} ({fault.rule})") from None


def _recipient(text: str) -> str:
    try:
        return identity_text("the recipient id", text)
    except IdentityError as error:
        raise Refused(RECIPIENT, str(error), "give the recipient the id it has with you") from None


def _variables_text(variables: Mapping[str, Any]) -> str:
    try:
        return write_variables(variables)
    except VariableRefused as refused:
        raise Refused(VARIABLE + refused.name, refused.reason, "correct the value") from None


def _variable(error: KeyError) -> str:
    """Return the field of the variable whose name, perhaps a dotted one, *error* tells."""
    return VARIABLE + str(error.args[0]).partition(".")[0]


def _addressee(key: bytes, address: str, variables: Mapping[str, Any]) -> Addressee:
    return Addressee(
        intent_key=key.hex(),
        attempt_number=1,
        token=SAMPLE_TOKEN,
        destination=address,
        variables=variables,
    )
