"""The work queue: claims, leases, and the rows whose time has come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import tuple_row

from sendledger.ledger.words import Lane
from sendledger.store.columns import array
from sendledger.store.database import Connection
from sendledger.store.statements import statement

_CLAIM = statement("claim_deliveries")
_RENEW = statement("renew_leases")
_RELEASE = statement("release_claims")
_FREE = statement("free_expired_claims")
_FIND_LOST = statement("find_lost_attempts")
_FIND_ENDED = statement("find_ended_waits")
_RETIME = statement("retime_waits")
_FIND_HELD = statement("find_held")
_FIND_ORPHANED = statement("find_orphaned")
_HELD_UNTIL = statement("read_held_until")
_NEXT_DUE = statement("next_due")


class Claimed(NamedTuple):
    """A claimed row with all that authorising and writing it needs. The secrets are None once erased.

    A tuple, because there is one for each delivery; the fields are the columns of the claim, in order.
    """

    intent_id: int
    batch_id: int
    wake_at: datetime
    status: str
    seq: int
    decision_seq: int | None
    attempt_count: int
    claims: int
    claimed_at: datetime
    intent_key: bytes
    eligible_at: datetime
    not_after: datetime | None
    destination_fingerprint: bytes
    domain_key: bytes | None
    content_id: int
    purpose: str
    lane: int
    scope_keys: list[str]
    destination: str | None
    variables: dict[str, Any] | None
    attachments: list[dict[str, Any]] | None = None
    attachment_places: list[dict[str, Any]] | None = None
    paused_scope: str | None = None
    closed_until: datetime | None = None
    suppressions: list[dict[str, str]] | None = None

    def __repr__(self) -> str:
        return f"Claimed(intent_id={self.intent_id})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """What to claim. ``now`` is for tests; production leaves it to the database's clock.

    The queue is ordered by (wake_at, intent_id); rows before (``wake_from``, ``intent_from``) are left out.
    """

    channel: str
    lane: Lane
    claim_token: UUID
    claim_max: int
    lease: timedelta
    wake_from: datetime | None = None
    intent_from: int | None = None
    probing: bool = False
    now: datetime | None = None


async def claim_deliveries(connection: Connection, request: ClaimRequest) -> list[Claimed]:
    """Claim due rows, oldest first; never more than ``claim_max``."""
    cursor = await connection.execute(
        _CLAIM, {name: getattr(request, name) for name in ClaimRequest.__slots__}
    )
    return list(map(Claimed._make, await cursor.fetchall()))


async def renew_leases(
    connection: Connection,
    claim_tokens: Sequence[UUID],
    *,
    lease: timedelta,
    now: datetime | None = None,
) -> int:
    """Extend the running leases of these claims; returns how many rows still had one."""
    cursor = await connection.execute(
        _RENEW, {"claim_tokens": list(claim_tokens), "lease": lease, "now": now}
    )
    return cursor.rowcount


async def release_claims(
    connection: Connection, claims: Sequence[tuple[int, UUID]], *, wake_at: datetime | None = None
) -> int:
    """Give back claims that opened nothing, to be claimed again not before *wake_at*."""
    return await postpone_claims(connection, [(*claim, wake_at) for claim in claims])


async def postpone_claims(
    connection: Connection, claims: Sequence[tuple[int, UUID, datetime | None]]
) -> int:
    """As :func:`release_claims`, each with an instant of its own."""
    cursor = await connection.execute(
        _RELEASE,
        {
            "intent_ids": array([intent_id for intent_id, _, _ in claims]),
            "claim_tokens": array([token for _, token, _ in claims]),
            "wake_at": array([wake_at for _, _, wake_at in claims]),
        },
    )
    return cursor.rowcount


async def free_expired_claims(
    connection: Connection, *, lease: timedelta, rows_max: int, now: datetime | None = None
) -> int:
    """Make rows claimable whose lease ended before anything was opened; returns how many."""
    cursor = await connection.execute(_FREE, {"lease": lease, "rows_max": rows_max, "now": now})
    return cursor.rowcount


async def find_lost_attempts(
    connection: Connection, *, lease: timedelta, rows_max: int, now: datetime | None = None
) -> list[tuple[int, int]]:
    """Return (intent id, attempt number) of open attempts whose lease has ended."""
    return await _pairs(connection, _FIND_LOST, {"lease": lease, "rows_max": rows_max, "now": now})


async def find_ended_waits(
    connection: Connection, *, channel: str, rows_max: int, now: datetime | None = None
) -> list[tuple[int, int]]:
    """Return (intent id, attempt count) of rows whose wait for evidence has ended."""
    parameters = {"channel": channel, "rows_max": rows_max, "now": now}
    return await _pairs(connection, _FIND_ENDED, parameters)


async def retime_waits(connection: Connection, intent_ids: Sequence[int]) -> int:
    """Let waits that were to be looked up wake only when they end; returns how many woke sooner."""
    cursor = await connection.execute(_RETIME, {"intent_ids": list(intent_ids)})
    return cursor.rowcount


async def find_held(
    connection: Connection, *, channel: str, cause: str, rows_max: int
) -> list[tuple[int, int]]:
    """Return (intent id, attempt count) of rows held under *cause*."""
    parameters = {"channel": channel, "cause": cause, "rows_max": rows_max}
    return await _pairs(connection, _FIND_HELD, parameters)


async def find_orphaned(
    connection: Connection,
    *,
    channel: str,
    rows_max: int,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[tuple[int, int]]:
    """Return (intent id, attempt count) of rows held under a scope that is not paused any more.

    Looks at the rows that were put on hold after *since* and by *until*.
    """
    parameters = {"channel": channel, "rows_max": rows_max, "since": since, "until": until}
    return await _pairs(connection, _FIND_ORPHANED, parameters)


async def read_held_until(
    connection: Connection, *, channel: str, since: datetime | None, rows_max: int
) -> datetime | None:
    """Return by when the next *rows_max* held rows after *since* were put on hold; None: all the rest."""
    parameters = {"channel": channel, "since": since, "rows_max": rows_max}
    cursor = await connection.execute(_HELD_UNTIL, parameters)
    row = await cursor.fetchone()
    until: datetime | None = row[0] if row else None
    return until


async def next_due(connection: Connection, channels: Sequence[str]) -> datetime | None:
    """Return when the next row can be acted on, now for one in flight, or None."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_NEXT_DUE, {"channels": list(channels)})
        row = await cursor.fetchone()
    due: datetime | None = row[0] if row else None
    return due


async def _pairs(
    connection: Connection, query: bytes, parameters: dict[str, Any]
) -> list[tuple[int, int]]:
    cursor = await connection.execute(query, parameters)
    return [(row[0], row[1]) for row in await cursor.fetchall()]
