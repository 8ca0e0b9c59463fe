"""What differs between a plan and what was planned before it: fields and rows, never a value."""

from __future__ import annotations

import json
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sendledger.journal.batch import ATTACHMENTS, DESTINATION, VARIABLE, Batch
from sendledger.store.new_intents import NewIntent
from sendledger.store.planning import NewBatch, PlannedRow

LINES_MAX = 20

_HEADER = {
    "purpose": "purpose",
    "lane": "lane",
    "authorization_id": "authorization.id",
    "authorized_by": "authorization.by",
    "authorized_at": "authorization.at",
}
_ABSENT = object()

Items = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A field that differs from what is planned under the same key, and the first rows it differs in.

    ``lines`` is empty for a field of the batch itself; ``more`` rows beyond those named differ too.
    """

    field: str
    lines: tuple[int, ...] = ()
    more: int = 0

    def __str__(self) -> str:
        if not self.lines:
            return self.field
        word = "line" if len(self.lines) == 1 else "lines"
        more = f" and {self.more} more" if self.more else ""
        return f"{self.field} ({word} {', '.join(map(str, self.lines))}{more})"


class PlanConflict(Exception):  # noqa: N818 - a conflict is the word for it
    """The same identity is planned with something else in it; roll the transaction back.

    The text names the fields and the rows, never a value.
    """

    def __init__(self, conflicts: Iterable[Conflict]) -> None:
        self.conflicts = tuple(conflicts)
        rows = any(conflict.lines for conflict in self.conflicts)
        super().__init__(
            "under this report, channel and content_revision something else is planned already"
            f"{', or stands in an earlier row' if rows else ''}; it differs in"
            f" {', '.join(map(str, self.conflicts))}: plan what was planned, or choose a new"
            " content_revision"
        )


class Conflicts:
    """The conflicts of a run, counted by field, with the first rows of each."""

    def __init__(self) -> None:
        self._lines: dict[str, list[int]] = {}
        self._count: Counter[str] = Counter()

    def add(self, line: int, fields: Iterable[str]) -> None:
        """Note that the row at *line* differs in *fields*."""
        for field in fields:
            self._count[field] += 1
            lines = self._lines.setdefault(field, [])
            insort(lines, line)  # rows that are looked up come later than their lines
            del lines[LINES_MAX:]

    def raise_any(self) -> None:
        """Raise :class:`PlanConflict` unless there is none."""
        if self._count:
            raise PlanConflict(
                Conflict(field=field, lines=tuple(lines), more=self._count[field] - len(lines))
                for field, lines in self._lines.items()
            )


def header_conflicts(stored: NewBatch, given: NewBatch) -> Iterator[str]:
    """Yield the fields of a batch header that differ; its content is compared by itself."""
    for name, field in _HEADER.items():
        if getattr(stored, name) != getattr(given, name):
            yield field
    # Of the scopes it is the only one that comes from settings rather than from the batch.
    if _senders(stored) != _senders(given):
        yield "the sender of the channel"


def _senders(batch: NewBatch) -> set[str]:
    return {key for key in batch.scope_keys if key.startswith("sender:")}


def mapping_conflicts(
    prefix: str, stored: Mapping[str, Any], given: Mapping[str, Any]
) -> Iterator[str]:
    """Yield *prefix* and the name of every entry that differs."""
    for name in sorted(stored.keys() | given.keys()):
        if stored.get(name, _ABSENT) != given.get(name, _ABSENT):
            yield prefix + name


def intent_conflicts(stored: PlannedRow, given: NewIntent, batch: Batch) -> Iterator[str]:
    """Yield the fields in which *given* differs from the intent that has its key."""
    if stored.destination_fingerprint != given.destination_fingerprint:
        yield DESTINATION
    if stored.content_digest != given.content_digest:
        yield from _variable_conflicts(stored.variables, given)
        yield from _attachment_conflicts(stored.attachments, stored.attachment_places, given)
    not_before = None if stored.eligible_at == stored.planned_at else stored.eligible_at
    if not_before != batch.not_before:
        yield "not_before"
    if stored.not_after != batch.not_after:
        yield "not_after"


def repeat_conflicts(first: NewIntent, second: NewIntent) -> Iterator[str]:
    """Yield the fields in which two rows of one recipient differ."""
    if first.destination_fingerprint != second.destination_fingerprint:
        yield DESTINATION
    if first.content_digest != second.content_digest:
        yield from _variable_conflicts(json.loads(first.variables), second)
        facts, places = _attached(first)
        yield from _attachment_conflicts(facts, places, second)


def _variable_conflicts(stored: Mapping[str, Any] | None, given: NewIntent) -> Iterator[str]:
    if stored is None:
        yield VARIABLE.rstrip(".")  # erased: which of them it was can no longer be told
    else:
        yield from mapping_conflicts(VARIABLE, stored, json.loads(given.variables))


def _attachment_conflicts(
    facts: Items | None, places: Items | None, given: NewIntent
) -> Iterator[str]:
    """Yield the field when another file goes along, or the same under another name; it may have moved."""
    given_facts, given_places = _attached(given)
    renamed = places is not None and _names(places) != _names(given_places)
    if renamed or _files(facts or ()) != _files(given_facts):
        yield ATTACHMENTS


def _attached(intent: NewIntent) -> tuple[Items, Items]:
    return json.loads(intent.attachments or "[]"), json.loads(intent.attachment_places or "[]")


def _files(facts: Items) -> list[tuple[str, str]]:
    return [(fact["sha256"], fact["media_type"]) for fact in facts]


def _names(places: Items) -> list[str]:
    return [place["name"] for place in places]
