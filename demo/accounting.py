"""The demo's bookkeeping: what the ledger says of each recipient beside what the next hops' journals hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sendledger.ledger.tokens import read
from sendledger.store.database import Connection
from sendledger_sandbox import read_journal
from sendledger_sandbox.twilio import read_journal as read_twilio_journal

LEDGER = b"""
SELECT d.channel, s.recipient_id, i.intent_id, encode(i.intent_key, 'hex'), d.status,
    coalesce(d.awaits, 'nothing'), d.attempt_count
FROM sendledger.intent AS i
JOIN sendledger.delivery AS d USING (intent_id)
JOIN sendledger.recipient_secret AS s USING (intent_id)
"""

OPEN = b"""
SELECT (SELECT count(*) FROM sendledger.inbox) + count(*) FROM sendledger.delivery
WHERE awaits IN ('dispatch', 'result', 'retry') OR (channel = 'sms' AND awaits = 'evidence')
"""
"""What can still be worked on: of email, no further answer is expected soon."""

EMAIL: Mapping[str, set[int]] = {
    "submitted": {1},
    "ambiguous": {0, 1},
    "failed": {0},
    "suppressed": {0},
}
"""How often a relay may hold a message, by status: what is unknown to us may be there or not."""

SMS: Mapping[str, set[int]] = {
    "delivered": {1},
    "submitted": {1},
    "ambiguous": {0, 1},
    "failed": {0, 1},
    "suppressed": {0},
}
"""A provider refuses at once, or takes a message and finds out later that it cannot be delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What the ledger says of one recipient on one channel."""

    intent_id: int
    intent_key: str
    status: str
    awaits: str
    attempts: int


Ledger = Mapping[str, Mapping[str, Line]]
"""By channel and recipient id."""


@dataclass(slots=True, kw_only=True)
class Account:
    """Deliveries by (status, awaits) and by how often the journal holds each; and what does not add up."""

    rows: dict[tuple[str, str], Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    accounted: int = 0
    complaints: list[str] = field(default_factory=list)


async def read_ledger(connection: Connection) -> Ledger:
    """Return the ledger's word on every recipient."""
    cursor = await connection.execute(LEDGER)
    ledger: dict[str, dict[str, Line]] = defaultdict(dict)
    for channel, recipient, intent_id, key, status, awaits, attempts in await cursor.fetchall():
        ledger[channel][recipient] = Line(
            intent_id=intent_id, intent_key=key, status=status, awaits=awaits, attempts=attempts
        )
    return ledger


async def count(connection: Connection, query: bytes) -> int:
    """Return the number that *query* counts."""
    row = await (await connection.execute(query)).fetchone()
    assert row is not None
    return int(row[0])


def account_for_email(lines: Mapping[str, Line], journal: Path) -> Account:
    """Compare with a relay's journal, by Message-ID: it begins with the intent key."""
    held = [
        (accepted.message_id or "").strip("<>").partition("@")[0]
        for accepted in read_journal(journal)
    ]
    return _account(lines, held, {key: line.intent_key for key, line in lines.items()}, EMAIL)


def account_for_sms(lines: Mapping[str, Line], journal: Path, keys: Mapping[int, bytes]) -> Account:
    """Compare with the journal of the stand-in of Twilio, by the token in each callback's address."""
    held = [
        str(read(keys, accepted.token or "").intent_id)
        for accepted in read_twilio_journal(journal).accepted
    ]
    return _account(lines, held, {key: str(line.intent_id) for key, line in lines.items()}, SMS)


def _account(
    lines: Mapping[str, Line],
    held: Iterable[str],
    names: Mapping[str, str],
    possible: Mapping[str, set[int]],
) -> Account:
    """Count a recipient as accounted for when ledger and journal can both be true."""
    copies = Counter(held)
    account = Account()
    for recipient, line in lines.items():
        times = copies.pop(names[recipient], 0)
        account.rows[line.status, line.awaits][times] += 1
        if times in possible.get(line.status, set()):
            account.accounted += 1
        else:
            account.complaints.append(f"{recipient}: {line.status}, in the journal {times} times")
    account.complaints += [f"the journal holds {name}, the ledger does not" for name in copies]
    return account
