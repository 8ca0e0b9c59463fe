"""Reading and appending the ledger of single intents, under the lock of their delivery rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from psycopg.rows import class_row

from sendledger.store.columns import array, columns
from sendledger.store.database import Connection
from sendledger.store.statements import statement

_LOCK = statement("lock_deliveries")
_ATTEMPTS = statement("load_attempts")
_OBSERVATIONS = statement("load_observations")
_ADD = statement("add_observations")
_WRITE = statement("write_deliveries")
_ACCEPTED = statement("record_accepted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A locked delivery with what the fold and the decisions need of its intent."""

    intent_id: int
    seq: int
    channel: str
    lane: int
    batch_id: int
    intent_key: bytes
    eligible_at: datetime
    not_after: datetime | None
    provenance: str
    destination_fingerprint: bytes
    scope_keys: list[str]
    lease_ended: bool
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """A stored attempt."""

    intent_id: int
    seq: int
    number: int
    result_due_at: datetime
    unknown_due_at: datetime
    evidence_due_at: datetime
    window_ends_at: datetime
    opened_at: datetime
    decision_seq: int | None
    policy_revision: str
    seal: bytes
    units: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationRow:
    """A stored observation, without its literal side row."""

    intent_id: int
    seq: int
    source: str
    rule: str
    identity: str
    attempt: int | None
    outcome: str | None
    scope: str | None
    later: bool
    spent: bool
    opt_out: bool
    ruling: str | None
    due_at: datetime | None
    authorises: int | None
    cause: str | None
    stage: str | None
    reply_code: int | None
    enhanced_code: str | None
    provider_reference: str | None
    occurred_at: datetime | None
    received_at: datetime
    policy_revision: str
    actor: str | None
    seal: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NewObservation:
    """An observation with its place, ready to be appended."""

    intent_id: int
    seq: int
    source: str
    rule: str
    identity: str
    attempt: int | None
    outcome: str | None
    scope: str | None
    later: bool
    spent: bool
    opt_out: bool
    ruling: str | None
    due_at: datetime | None
    authorises: int | None
    cause: str | None
    stage: str | None
    reply_code: int | None
    enhanced_code: str | None
    provider_reference: str | None
    occurred_at: datetime | None
    received_at: datetime | None
    actor: str | None
    literal: bytes
    seal: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """The folded columns of one delivery, and when the queue looks at it next."""

    intent_id: int
    status: str
    awaits: str | None
    due_at: datetime | None
    wake_at: datetime | None
    attempt_count: int
    spent: int
    contradicted: bool
    because: int
    decision_seq: int | None
    seq: int


class AcceptedRow(NamedTuple):
    """The answer of the common case: attempt *number* was accepted; *seq* is the one after its opening.

    A tuple, because there is one for each delivery.
    """

    intent_id: int
    number: int
    seq: int
    rule: str
    stage: str | None
    reply_code: int | None
    enhanced_code: str | None
    provider_reference: str | None
    literal: bytes
    seal: bytes


async def lock_deliveries(connection: Connection, intent_ids: Sequence[int]) -> list[Locked]:
    """Lock deliveries in key order, inside the caller's transaction."""
    async with connection.cursor(row_factory=class_row(Locked)) as cursor:
        await cursor.execute(_LOCK, {"intent_ids": list(intent_ids)})
        return await cursor.fetchall()


async def load_attempts(
    connection: Connection, intent_ids: Sequence[int]
) -> dict[int, list[AttemptRow]]:
    """Return the attempts of each intent, by number."""
    async with connection.cursor(row_factory=class_row(AttemptRow)) as cursor:
        await cursor.execute(_ATTEMPTS, {"intent_ids": list(intent_ids)})
        return _by_intent(await cursor.fetchall())


async def load_observations(
    connection: Connection, intent_ids: Sequence[int]
) -> dict[int, list[ObservationRow]]:
    """Return the observations of each intent, in ledger order."""
    async with connection.cursor(row_factory=class_row(ObservationRow)) as cursor:
        await cursor.execute(_OBSERVATIONS, {"intent_ids": list(intent_ids)})
        return _by_intent(await cursor.fetchall())


async def add_observations(
    connection: Connection, rows: Sequence[NewObservation], *, policy_revision: str
) -> None:
    """Append observations and their literal side rows."""
    await connection.execute(
        _ADD, columns(NewObservation, rows) | {"policy_revision": policy_revision}
    )


async def write_deliveries(connection: Connection, rows: Sequence[DeliveryRow]) -> None:
    """Write folded columns of locked rows; a row that awaits no result any more loses its claim."""
    await connection.execute(_WRITE, columns(DeliveryRow, rows))


async def record_accepted(
    connection: Connection,
    rows: Sequence[AcceptedRow],
    *,
    policy_revision: str,
    asked: Collection[str] = (),
) -> set[int]:
    """Record the common case; returns the intent ids it took. The others need the slow path.

    *asked* are the channels whose provider can be asked: their rows wake as soon as they are overdue.
    """
    if not rows:
        return set()
    names = (f"{name}s" for name in AcceptedRow._fields)
    parameters: dict[str, Any] = dict(zip(names, map(array, zip(*rows, strict=True)), strict=True))
    parameters |= {"policy_revision": policy_revision, "asked": sorted(asked)}
    cursor = await connection.execute(_ACCEPTED, parameters)
    return {row[0] for row in await cursor.fetchall()}


_R = TypeVar("_R", AttemptRow, ObservationRow)


def _by_intent(rows: Iterable[_R]) -> dict[int, list[_R]]:
    grouped: dict[int, list[_R]] = defaultdict(list)
    for row in rows:
        grouped[row.intent_id].append(row)
    return grouped
