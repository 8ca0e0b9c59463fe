"""Opening attempts: the one place where a submission becomes possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from sendledger.store.columns import array
from sendledger.store.database import Connection
from sendledger.store.statements import statement

DISPATCH_LOCK = 0x5E4D1ED7

_OPEN = statement("open_attempts")
_FIND_OPENED = statement("find_opened")


class Opening(NamedTuple):
    """One attempt that is to be opened, fenced by its claim token and the seq that was read.

    ``units`` is how many units its message is charged as, where the channel counts any. A tuple, because
    there is one for each delivery.
    """

    intent_id: int
    seq: int
    decision_seq: int | None
    claim_token: UUID
    go_until: datetime
    seal: bytes
    domain_key: bytes | None = None
    units: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What holds for every attempt of one channel; durations run from the opening."""

    handoff_max: timedelta
    unknown_wait: timedelta
    evidence_wait: timedelta
    window: timedelta
    margin: timedelta
    token_key_id: int
    policy_revision: str


async def open_attempts(
    connection: Connection, openings: Sequence[Opening], terms: Terms
) -> set[int]:
    """Open attempts in the caller's transaction, or without one in their own.

    Returns the intent ids that may go to a sender. What is not returned must not be submitted: its
    claim, lease, deadline, a pause or a suppression said no as of the instant of opening.
    """
    if not openings:
        return set()
    cursor = await connection.execute(_OPEN, _parameters(openings, terms))
    return {row[0] for row in await cursor.fetchall()}


def _parameters(openings: Sequence[Opening], terms: Terms) -> dict[str, Any]:
    by_field = dict(zip(Opening._fields, map(array, zip(*openings, strict=True)), strict=True))
    return {
        "dispatch_lock": DISPATCH_LOCK,
        "intent_ids": by_field["intent_id"],
        "seqs": by_field["seq"],
        "decision_seqs": by_field["decision_seq"],
        "claim_tokens": by_field["claim_token"],
        "go_until": by_field["go_until"],
        "seals": by_field["seal"],
        "units": by_field["units"],
        "handoff_max": terms.handoff_max,
        "unknown_wait": terms.unknown_wait,
        "evidence_wait": terms.evidence_wait,
        "window": terms.window,
        "margin": terms.margin,
        "token_key_id": terms.token_key_id,
        "policy_revision": terms.policy_revision,
    }


async def find_opened(connection: Connection, openings: Sequence[Opening]) -> set[int]:
    """Return the intent ids whose attempt does stand in the ledger under these claims."""
    cursor = await connection.execute(
        _FIND_OPENED,
        {
            "intent_ids": array([opening.intent_id for opening in openings]),
            "seqs": array([opening.seq for opening in openings]),
            "claim_tokens": array([opening.claim_token for opening in openings]),
        },
    )
    return {row[0] for row in await cursor.fetchall()}
