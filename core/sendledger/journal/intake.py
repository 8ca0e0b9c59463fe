"""From a recipient as read to an intent, or to the reason why there can be none.

Everything that the recipients of a batch share is worked out once; a recipient costs plain functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from typing import Any

from sendledger.attachments import Reference, facts_text, identity_of, places_text
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
from sendledger.journal.plain import PlainTexts
from sendledger.journal.refused import Refused, unwritable
from sendledger.journal.variables import VariableRefused, write_variables
from sendledger.keys import KeyRing
from sendledger.ledger.identity import (
    IdentityError,
    IntentKeys,
    Keyed,
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
from sendledger.store.new_intents import DOMAIN_KEY_BYTES, NewIntent
from sendledger.store.planning import NewBatch

SAMPLE_TOKEN = "a" * 44
DOMAINS_MAX = 4096
_SAMPLE_VALUE = "x"
_Checked = tuple[str, Destination, str, tuple[Reference, ...]]
"""Recipient, destination, variables as JSON, attachments."""


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
        self._content_digests = Keyed(keys.intent_key_key, self.content.revision_hex)
        self._intent_keys = IntentKeys(
            keys.intent_key_key,
            report=self.batch.report,
            channel=port.name,
            revision=self.batch.content_revision,
        )
        self._recipient_prints = Keyed(keys.recipient_key)
        self._destination_prints = Keyed(keys.destination_key)
        self._domain_key = lru_cache(DOMAINS_MAX)(self._key_of_domain)

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

    def read_all(self, entries: Sequence[Entry]) -> list[NewIntent | Reject]:
        """Return what :meth:`read` does for each of *entries*, in order; a reject stays what it is."""
        found = [entry if isinstance(entry, Reject) else self._check(entry) for entry in entries]
        intents = iter(self._intents([one for one in found if not isinstance(one, Reject)]))
        return [one if isinstance(one, Reject) else next(intents) for one in found]

    def message(self, row: Row, attachments: tuple[Attachment, ...] = ()) -> bytes | Reject:
        """Return the message for *row* as it would go on the wire, but for its token and its date."""
        found = self.read(row)
        if isinstance(found, Reject):
            return found
        key = found.intent_key
        whom = _addressee(key, found.destination, self._values(row.variables))
        return self._writer.write(replace(whom, attachments=attachments))

    def _check(self, row: Row) -> _Checked | Reject:
        try:
            recipient = _recipient(row.recipient_id)
            destination = self._destination(row.destination)
            text = self._plain.text(destination.address, row.variables)
            if text is None:
                text = self._tried(recipient, destination, row.variables)
        except Refused as refused:
            return Reject(
                line=row.line, field=refused.field, reason=refused.reason, remedy=refused.remedy
            )
        return recipient, destination, text, row.attachments

    def _intents(self, checked: Sequence[_Checked]) -> list[NewIntent]:
        """Return the intents of rows, made column by column."""
        if not checked:
            return []
        recipients, destinations, texts, attached = zip(*checked, strict=True)
        # By their places: names cost as much as a digest.
        return list(
            map(
                NewIntent,
                self._intent_keys.each_clean(recipients),
                self._recipient_prints.each(recipients),
                self._destination_prints.each([one.canonical for one in destinations]),
                self._digests(texts, attached),
                recipients,
                [one.address for one in destinations],
                texts,
                [
                    None if one.domain is None else self._domain_key(one.domain)
                    for one in destinations
                ],
                map(facts_text, attached) if self.batch.attachments else repeat(""),
                map(places_text, attached) if self.batch.attachments else repeat(""),
            )
        )

    def _tried(self, recipient: str, destination: Destination, given: Mapping[str, Any]) -> str:
        """Return the variables in *given* as they are stored; a message was written with them."""
        (key,) = self._intent_keys.each_clean([recipient])
        variables = self._values(given)
        text = _variables_text(variables)
        self._try_writing(key, destination, variables)
        self._plain.prove(lambda texts: self._fault(key, destination, texts) is None)
        return text

    def _digests(
        self, texts: Sequence[str], attached: Sequence[tuple[Reference, ...]]
    ) -> list[bytes]:
        wanted = len(self.batch.attachments)
        assert all(len(references) == wanted for references in attached), "a row was not attached"
        if not wanted:
            return self._content_digests.each(texts)
        return [
            self._content_digests.of(text, identity_of(references))
            for text, references in zip(texts, attached, strict=True)
        ]

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

    def _key_of_domain(self, domain: str) -> bytes:
        """Return what the limits of a destination domain are counted under."""
        return self._destination_prints.of("domain", domain)[:DOMAIN_KEY_BYTES]

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
