"""What a channel is made of: the typed promises behind the hooks. No pluggy here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

from sendledger.ledger.evidence import NO_FACTS, Classification, Evidence
from sendledger.ledger.words import Lane, Scope


class Receipts(StrEnum):
    """What evidence a channel can bring after acceptance, at best."""

    NONE = "none"
    FAILURES = "failures"
    DELIVERED = "delivered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a channel can and cannot do; core derives deadlines, words and permissions from it.

    ``classification`` names the shipped rule table of the channel, or None when it brings its own.
    ``handoff_max`` bounds one submission, from opening to result; past it the result is recorded as unknown.
    ``parts`` are the template parts the channel renders; each maps to whether it is HTML.
    ``attachments`` says that its messages can carry files, ``unsubscribe`` that they can offer a way out: each
    content then carries the setting ``unsubscribe``, yes or no. ``units`` names what its messages are charged
    by (``segments``); the channel then has a plain method ``units_of(message) -> int``, and the count is
    stored with the attempt.
    """

    parts: Mapping[str, bool]
    required_parts: frozenset[str]
    receipts: Receipts = Receipts.NONE
    look_up: bool = False
    absence_is_proof: bool = False
    idempotent: bool = False
    acceptance_is_arrival: bool = False
    attachments: bool = False
    unsubscribe: bool = False
    units: str | None = None
    classification: str | None = None
    handoff_max: timedelta = timedelta(minutes=30)
    window: timedelta = timedelta(days=5)


class Destination(NamedTuple):
    """A validated address: ``address`` goes on the wire, ``canonical`` is what two spellings share.

    A tuple, because millions of them are made when a batch is planned.
    """

    address: str
    canonical: str
    domain: str | None = None

    def __repr__(self) -> str:
        return f"Destination(domain={self.domain!r})"


class DestinationRefused(ValueError):  # noqa: N818 - a refusal is the word for it
    """The text is no destination of this channel. ``reason`` is a stable word; the text is never quoted."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}: {remedy}")
        self.reason = reason
        self.remedy = remedy


class Template(Protocol):
    """One compiled part of a content revision."""

    @property
    def variables(self) -> frozenset[str]:
        """Names that every recipient must supply."""

    @property
    def static(self) -> tuple[str, ...]:
        """The texts around what :meth:`splice` returns: one before each of it, and one after the last."""

    def splice(self, values: Mapping[str, Any]) -> list[str]:
        """Return what stands between the static texts for *values*. Raises as :meth:`render`."""

    def render(self, values: Mapping[str, Any]) -> str:
        """Return all of it for *values*. Raises ``KeyError`` with the name of a missing variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A content revision as planned: its digest in hex, its compiled parts, and the batch's own settings.

    In a ``rehearsal`` messages are written to see whether they can be, or to be looked at, and never
    submitted: what costs time and changes neither, such as a signature, may be left out.
    """

    revision: str
    parts: Mapping[str, Template]
    settings: Mapping[str, str] = field(default_factory=lambda: NO_FACTS)
    rehearsal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that goes with one message: fetched, and of the digest that was planned."""

    name: str = field(repr=False)
    media_type: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressee:
    """Whom a message is written for. ``intent_key`` and ``token`` may appear on the wire, the rest is secret."""

    intent_key: str
    attempt_number: int
    token: str
    destination: str = field(repr=False)
    variables: Mapping[str, Any] = field(repr=False)
    attachments: tuple[Attachment, ...] = field(default=(), repr=False)


class ContentFault(ValueError):  # noqa: N818 - a fault of the content, not of the program
    """One message cannot be written for its addressee; holds nobody else. ``rule`` is a stable id."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(f"{rule}: {reason}")
        self.rule = rule
        self.reason = reason


class ContentHeld(ContentFault):
    """The content asks for what the channel's settings do not give: nobody's fault who is written to.

    At planning it is a fault of the batch; met later, the rows are held, under the rule as their cause,
    until the settings give it and somebody releases them.
    """


class Writer(Protocol):
    """A compiled content revision; splices one addressee in, without I/O.

    One that has an attribute ``plain_text`` which is True promises more: of a printable text
    (``str.isprintable``) in the destination or in a variable nothing but its length in UTF-8 decides
    whether a message can be written, and a longer one is refused where a shorter one is. Planning then
    writes a few messages, and not each, to know that all of a batch can be written.
    """

    def write(self, addressee: Addressee) -> bytes:
        """Return the message as it goes on the wire. Raises :class:`ContentFault`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What a channel needs to hand one message over, for one recipient and one numbered attempt.

    ``callback_url`` is where receipts of this attempt are to be sent, None where nobody listens.
    """

    intent_key: str
    attempt_number: int
    token: str
    destination: str = field(repr=False)
    message: bytes = field(repr=False)
    not_after: datetime | None = None
    callback_url: str | None = field(default=None, repr=False)


class SessionRefused(Exception):  # noqa: N818 - a refusal is the word for it
    """No ready session is to be had. Carries the evidence; nothing was submitted and nothing is spent."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(f"no session: {evidence.stage} {evidence.fault or evidence.reply_code}")
        self.evidence = evidence


@runtime_checkable
class Session(Protocol):
    """A connected, authenticated, revalidated way to hand over; opaque to core."""


@runtime_checkable
class Channel(Protocol):
    """A configured channel: one object, registered under its configured name.

    Every method is a hook implementation. Only ``submit`` and ``session`` touch the network.
    """

    capabilities: Capabilities

    def sendledger_destination(self, text: str) -> Destination:
        """Validate and normalise, or raise :class:`DestinationRefused`."""

    def sendledger_prepare(self, content: Content) -> Writer:
        """Compile a content revision once. Raises :class:`ContentFault` when it can never be sent."""

    def sendledger_session(self) -> AbstractAsyncContextManager[Session]:
        """Lend a ready session; entering raises :class:`SessionRefused`."""

    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        """Hand one envelope over and return what was read. Never raises for what the peer does."""

    def sendledger_classify(self, channel: str, evidence: Evidence) -> Classification | None:
        """Say what *evidence* means, or None to leave it to the default by class."""

    def sender_of(self, content_settings: Mapping[str, str]) -> str:
        """Name the sender identity that a fault of scope ``sender`` would pause."""


# --- authorisation ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """A standing refusal that covers a candidate: where it came from and how far it reaches."""

    scope_key: str
    rule: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A claimed row with the facts core fetched for it; ``now`` is the database's clock."""

    intent_key: str
    channel: str
    purpose: str
    lane: Lane
    now: datetime
    not_after: datetime | None
    suppressions: tuple[Suppression, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Go:
    """May be submitted until ``until``; opening re-checks it with the database's clock."""

    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Not now; may be asked again from ``until`` on (quiet hours, a window, a cap)."""

    until: datetime
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Not until somebody releases it; ``cause`` groups the rows under one task."""

    rule: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """Never: a standing refusal or missing consent. The delivery becomes suppressed."""

    rule: str


Verdict = Go | Wait | Hold | Deny
"""From lenient to strict; of several answers about one candidate the strictest wins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What observers are told after commit: nothing readable about a person."""

    intent_key: str
    channel: str
    seq: int
    attempt_number: int | None
    source: str
    outcome: str | None
    ruling: str | None
    scope: Scope | None
    rule: str
    status: str


Verdicts = Sequence[Verdict]
