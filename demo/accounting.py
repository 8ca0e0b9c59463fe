"""The demo's bookkeeping: what the ledger says of each recipient beside what the relay's journal holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sendledger.store.database import Connection
from sendledger_sandbox import read_journal

LEDGER = b"""
SELECT s.recipient_id, encode(i.intent_key, 'hex'), d.status, coalesce(d.awaits, 'nothing'),
    d.attempt_count
FROM sendledger.intent AS i
JOIN sendledger.delivery AS d USING (intent_id)
JOIN sendledger.recipient_secret AS s USING (intent_id)
"""

POSSIBLE = {
    "submitted": {1},
    "delivered": {1},
    "ambiguous": {0, 1},
    "failed": {0},
    "suppressed": {0},
    "deferred": {0},
    "planned": {0},
}
"""How often the journal may hold a message, by status: what is unknown to us may be there or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What the ledger says of one recipient."""

    intent_key: str
    status: str
    awaits: str
    attempts: int


@dataclass(slots=True, kw_only=True)
class Account:
    """Deliveries by (status, awaits) and by how often the journal holds each; and what does not add up."""

    rows: dict[tuple[str, str], Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    accounted: int = 0
    complaints: list[str] = field(default_factory=list)


async def read_ledger(connection: Connection) -> dict[str, Line]:
    """Return the ledger's word on every recipient, by recipient id."""
    cursor = await connection.execute(LEDGER)
    return {
        recipient: Line(intent_key=key, status=status, awaits=awaits, attempts=attempts)
        for recipient, key, status, awaits, attempts in await cursor.fetchall()
    }


def account_for(ledger: Mapping[str, Line], journal: Path) -> Account:
    """Count a recipient as accounted for when ledger and journal can both be true."""
    held: Counter[str] = Counter()
    for accepted in read_journal(journal):
        held[(accepted.message_id or "").strip("<>").partition("@")[0]] += 1
    account = Account()
    for recipient, line in ledger.items():
        times = held.pop(line.intent_key, 0)
        account.rows[line.status, line.awaits][times] += 1
        if times in POSSIBLE.get(line.status, set()):
            account.accounted += 1
        else:
            account.complaints.append(f"{recipient}: {line.status}, in the journal {times} times")
    account.complaints += [f"the journal holds {key}, the ledger does not" for key in held]
    return account
