"""What planning is asked for: a batch, its recipients, and how it says that one of either cannot be.

A fault of the batch plans nobody; a reject holds nobody but its own recipient. Neither quotes a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from sendledger.attachments import Reference
from sendledger.ledger.words import Lane
from sendledger.settings.batch import BatchSettings, label_text

RECIPIENT = "recipients.id"
DESTINATION = "recipients.destination"
VARIABLE = "variables."
ATTACHMENTS = "attachments"
"""Fields that a reject names; ``VARIABLE`` is followed by the variable."""


class BatchFault(Exception):  # noqa: N818 - a fault is the word for it
    """The batch cannot be planned, whoever its recipients are.

    ``path`` are the keys to what is at fault, as in a batch file; ``sentence`` says why and what to do.
    ``line`` and ``column`` count from 1 within the text there; both are 0 when all of it is meant.
    """

    def __init__(
        self, path: tuple[str, ...], sentence: str, *, line: int = 0, column: int = 0
    ) -> None:
        place = f"line {line}, column {column} of the text: " if line else ""
        super().__init__(f"{'.'.join(path)}: {place}{sentence}")
        self.path = path
        self.sentence = sentence
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """Who allowed a batch, when, and under which reference it can be looked up. ``at`` is aware."""

    id: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentSource:
    """A file that goes with each message of a batch.

    ``url``, ``name`` and ``sha256`` are templates over a recipient's variables. Without ``sha256`` the
    file is read when it is planned, to know its digest.
    """

    url: str
    name: str
    media_type: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One report on one channel: its content, and on whose authority it goes to anybody.

    ``content_revision`` is the caller's own label: another text under the same label is a conflict,
    never a second message. ``parts`` are template sources by name, ``settings`` the content's own. With
    ``inline_css`` the style sheets of the HTML part are moved into its elements.
    Without ``not_before`` an intent is eligible at once, without ``not_after`` for good. Instants are aware.
    """

    report: str
    content_revision: str
    channel: str
    purpose: str
    authorization: Authorization
    parts: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    inline_css: bool = False
    lane: Lane = Lane.BULK
    not_before: datetime | None = None
    not_after: datetime | None = None
    attachments: tuple[AttachmentSource, ...] = ()


class Row(NamedTuple):
    """A recipient as read: ``line`` is where it began. A variable that has no value is None.

    A tuple, because there are millions of them.
    """

    line: int
    recipient_id: str
    destination: str
    variables: Mapping[str, Any]
    attachments: tuple[Reference, ...] = ()

    def __repr__(self) -> str:
        return f"Row(line={self.line})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Why a recipient is not planned; holds nobody else and quotes nothing of the row.

    ``field`` is one of the fields above, empty when the row as a whole or the content is meant.
    """

    line: int
    field: str
    reason: str
    remedy: str


Entry = Row | Reject


def batch_of(settings: BatchSettings) -> Batch:
    """Return the batch that a batch file describes."""
    authorization = settings.authorization
    return Batch(
        report=settings.report,
        content_revision=settings.content_revision,
        channel=settings.channel,
        purpose=settings.purpose,
        authorization=Authorization(id=authorization.id, by=authorization.by, at=authorization.at),
        parts=settings.content.parts,
        settings=settings.content.settings,
        inline_css=settings.content.inline_css,
        lane=Lane[settings.lane.upper()],
        not_before=settings.not_before,
        not_after=settings.not_after,
        attachments=tuple(AttachmentSource(**one.model_dump()) for one in settings.attachments),
    )


def checked(batch: Batch) -> Batch:
    """Return *batch* with its labels in NFC. Raises :class:`BatchFault` for what cannot be stored."""
    for name in ("not_before", "not_after"):
        _refuse_naive((name,), getattr(batch, name))
    _refuse_naive(("authorization", "at"), batch.authorization.at)
    if batch.not_before and batch.not_after and batch.not_after <= batch.not_before:
        raise BatchFault(("not_after",), "must be later than not_before")
    return replace(
        batch,
        report=_label(("report",), batch.report),
        content_revision=_label(("content_revision",), batch.content_revision),
        purpose=_label(("purpose",), batch.purpose),
        authorization=replace(
            batch.authorization,
            id=_label(("authorization", "id"), batch.authorization.id),
            by=_label(("authorization", "by"), batch.authorization.by),
        ),
    )


def _label(path: tuple[str, ...], text: str) -> str:
    try:
        return label_text(text)
    except ValueError as error:
        raise BatchFault(path, f"{error}; write one line of text") from None


def _refuse_naive(path: tuple[str, ...], instant: datetime | None) -> None:
    if instant is not None and instant.utcoffset() is None:
        raise BatchFault(path, "has no zone; give an aware instant")
