"""What is read of the ledger for Prometheus: cheap things every few seconds, a count now and then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sendledger.store import scopes, watching
from sendledger.store.database import Connection
from sendledger.store.watching import Backlog, DeliveryCount, Overdue


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What costs the same however many rows there are."""

    overdue: Sequence[Overdue]
    paused: frozenset[str]
    backing_off: frozenset[str]
    tasks: dict[str, int]
    backlog: Backlog


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What only a scan of the whole table tells."""

    deliveries: Sequence[DeliveryCount]


async def watch(connection: Connection, *, grace: timedelta) -> Watched:
    """Read everything that is cheap."""
    return Watched(
        overdue=await watching.find_overdue(connection, grace=grace),
        paused=frozenset(row.scope_key for row in await scopes.list_pauses(connection)),
        backing_off=frozenset(row.scope_key for row in await scopes.list_back_offs(connection)),
        tasks=await watching.count_tasks(connection),
        backlog=await watching.read_backlog(connection),
    )


async def count(connection: Connection) -> Counted:
    """Count the whole table."""
    return Counted(deliveries=await watching.count_deliveries(connection))
