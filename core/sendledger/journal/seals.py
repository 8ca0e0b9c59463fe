"""Seals: a keyed digest on each ledger row, so that a row changed or moved by hand shows."""

from __future__ import annotations

from datetime import UTC
from operator import attrgetter

from sendledger.ledger.findings import Finding
from sendledger.ledger.identity import seal
from sendledger.store.ledger_rows import ObservationRow

SEALED = (
    "source", "rule", "identity", "attempt", "outcome", "scope", "later", "spent", "opt_out",
    "ruling", "due_at", "authorises", "cause", "stage", "reply_code", "enhanced_code",
    "provider_reference", "actor",
)  # fmt: skip
"""What the seal of an observation covers besides its place: all that the fold and a reader rest on."""

_sealed = attrgetter(*SEALED)
_DUE_AT = SEALED.index("due_at")


def seal_attempt(
    key: bytes, intent_id: int, seq: int, number: int, decision_seq: int | None
) -> bytes:
    """Return the seal of an attempt: its place, its number and the decision it rests on."""
    return seal(key, intent_id, seq, "attempt", number, decision_seq)


def seal_observation(key: bytes, intent_id: int, seq: int, row: Finding | ObservationRow) -> bytes:
    """Return the seal of an observation; the same for a finding and for the row it became."""
    parts = list(_sealed(row))
    if row.due_at is not None:
        parts[_DUE_AT] = row.due_at.astimezone(UTC).isoformat()
    return seal(key, intent_id, seq, "observation", *parts)
