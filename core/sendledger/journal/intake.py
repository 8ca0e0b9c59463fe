"""From a recipient as read to an intent, or to the reason why there can be none.

Everything that the recipients of a batch share is worked out once; a recipient costs plain functions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sendledger.content import load_content
from sendledger.keys import KeyRing
from sendledger.ledger.identity import (
    Identity,
    IdentityError,
    content_digest,
    identity_text,
    intent_key,
    keyed,
)
from sendledger.ledger.words import Lane
from sendledger.plugin import Addressee, Content, ContentFault, Destination, DestinationRefused
from sendledger.plugin.faults import PluginFault
from sendledger.plugin.port import ChannelPort
from sendledger.store.planning import NewBatch, NewIntent

RECIPIENT = "recipients.id"
DESTINATION = "recipients.destination"
VARIABLE = "variables."
"""Fields that a reject names; the last is followed by the variable."""

SAMPLE_TOKEN = "a" * 44
_SAMPLE_VALUE = "x"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What a batch is: the report, its content, and on whose authority it goes to anybody.

    ``parts`` are template sources by name, ``settings`` the content's own. Without ``not_before`` an
    intent is eligible at once, without ``not_after`` for good. Instants are aware.
    """

    report: str
    content_revision: str
    purpose: str
    lane: Lane
    authorization_id: str
    authorized_by: str
    authorized_at: datetime
    parts: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    not_before: datetime | None = None
    not_after: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A recipient as read: ``line`` is where it began. A variable that has no value is None."""

    line: int
    recipient_id: str = field(repr=False)
    destination: str = field(repr=False)
    variables: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Why a recipient is not planned; holds nobody else and quotes nothing of the row.

    ``field`` is one of the fields above, empty when the row as a whole or the content is meant.
    """

    line: int
    field: str
    reason: str
    remedy: str


class _Refused(Exception):  # noqa: N818 - a refusal is the word for it
    def __init__(self, field: str, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.field = field
        self.reason = reason
        self.remedy = remedy


class Intake:
    """The recipients' way into one batch, on one channel; reads no clock and touches no database."""

    def __init__(self, request: PlanRequest, port: ChannelPort, keys: KeyRing) -> None:
        """Compile the content of *request* for the channel behind *port*.

        Raises ``TemplateError`` for a bad template or set of parts, ``ContentFault`` for content that can
        never be sent, ``IdentityError`` for a label that cannot be one, and ``PluginFault``.
        """
        capabilities = port.capabilities
        self.request = request
        self.content = load_content(
            request.parts,
            capabilities.parts,
            settings=request.settings,
            required=capabilities.required_parts,
        )
        self.names = tuple(sorted(self.content.names))
        self.template_revision = bytes.fromhex(self.content.revision_hex)
        self._port = port
        self._writer = port.prepare(
            Content(
                revision=self.content.revision_hex,
                parts=self.content.parts,
                settings=self.content.settings,
            )
        )
        self._report = identity_text("the report", request.report)
        self._revision = identity_text("the content revision", request.content_revision)
        self._intent_key_key = keys.intent_key_key
        self._recipient_key = keys.recipient_key
        self._destination_key = keys.destination_key

    def header(self, content_id: int) -> NewBatch:
        """Return the batch header, with the stored content as *content_id*. Raises ``PluginFault``."""
        request, channel = self.request, self._port.name
        purpose = identity_text("the purpose", request.purpose)
        return NewBatch(
            report=self._report,
            channel=channel,
            content_revision=self._revision,
            purpose=purpose,
            lane=request.lane,
            content_id=content_id,
            authorization_id=request.authorization_id,
            authorized_by=request.authorized_by,
            authorized_at=request.authorized_at,
            scope_keys=[
                "all",
                f"channel:{channel}",
                f"sender:{channel}/{self._port.sender_of(request.settings)}",
                f"purpose:{purpose}",
                f"batch:{self._report}/{self._revision}/{channel}",
            ],
        )

    def read(self, row: Row) -> NewIntent | Reject:
        """Return the intent of *row*, which the channel can write and address; never raises for a row."""
        try:
            return self._intent(row)
        except _Refused as refused:
            return Reject(
                line=row.line, field=refused.field, reason=refused.reason, remedy=refused.remedy
            )

    def _intent(self, row: Row) -> NewIntent:
        recipient = _recipient(row.recipient_id)
        destination = self._destination(row.destination)
        variables = {name: row.variables.get(name) for name in self.names}
        _refuse_nul(variables)
        identity = Identity(
            report=self._report,
            recipient=recipient,
            channel=self._port.name,
            revision=self._revision,
        )
        key = intent_key(self._intent_key_key, identity)
        self._try_writing(key, destination, variables)
        return NewIntent(
            intent_key=key,
            recipient_fingerprint=keyed(self._recipient_key, recipient),
            destination_fingerprint=keyed(self._destination_key, destination.canonical),
            domain_key=self._domain_key(destination.domain),
            content_digest=content_digest(
                self._intent_key_key,
                template_revision=self.content.revision_hex,
                variables=variables,
            ),
            recipient_id=recipient,
            destination=destination.address,
            variables=json.dumps(variables, ensure_ascii=False),
        )

    def _domain_key(self, domain: str | None) -> bytes | None:
        """Return what the limits of a destination domain are counted under."""
        return None if domain is None else keyed(self._destination_key, "domain", domain)[:8]

    def _destination(self, text: str) -> Destination:
        text = text.strip(" \t")
        if not text:
            raise _Refused(DESTINATION, "the destination is empty", "fill it in")
        if "\0" in text:
            raise _Refused(DESTINATION, "the destination holds a NUL character", "take it out")
        try:
            return self._port.destination(text)
        except DestinationRefused as refused:
            raise _Refused(DESTINATION, refused.reason, refused.remedy) from None
        except PluginFault as fault:
            raise _Refused(DESTINATION, str(fault), "report it to the plugin's authors") from None

    def _try_writing(self, key: bytes, destination: Destination, variables: dict[str, Any]) -> None:
        """Write the message once and throw it away: what cannot be written must not be planned."""
        fault = self._fault(key, destination, variables)
        if fault is None:
            return
        if missing := self._missing(variables):
            raise _Refused(VARIABLE + missing, "the value is empty", "fill it in")
        for name in self.names:
            # The culprit is the variable without which the message can be written.
            if not self._fault(key, destination, {**variables, name: _SAMPLE_VALUE}):
                raise _Refused(VARIABLE + name, fault.reason, "correct the value")
        raise _Refused("", fault.reason, "correct the content or the row")

    def _fault(
        self, key: bytes, destination: Destination, variables: dict[str, Any]
    ) -> ContentFault | None:
        addressee = Addressee(
            intent_key=key.hex(),
            attempt_number=1,
            token=SAMPLE_TOKEN,
            destination=destination.address,
            variables=variables,
        )
        try:
            self._writer.write(addressee)
        except ContentFault as fault:
            return fault
        return None

    def _missing(self, variables: dict[str, Any]) -> str | None:
        """Return the variable that a part shows and that has no value."""
        for part in self.content.parts.values():
            try:
                part.render(variables)
            except KeyError as error:
                name = str(error.args[0]).partition(".")[0]
                if variables.get(name) is None:
                    return name
        return None


def _recipient(text: str) -> str:
    try:
        return identity_text("the recipient id", text)
    except IdentityError as error:
        raise _Refused(RECIPIENT, str(error), "give the recipient the id it has with you") from None


def _refuse_nul(variables: Mapping[str, Any]) -> None:
    for name, value in variables.items():
        if isinstance(value, str) and "\0" in value:
            raise _Refused(VARIABLE + name, "the value holds a NUL character", "take it out")
