"""Judges a ledger of SMS from outside, beside the journal of the provider: what it took, and what it told.

As :mod:`acceptance.ledger_checker`; in addition no receipt may be lost. Each callback that was answered
with 2xx is an observation: its own, or that of the same callback before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import psycopg

from acceptance.ledger_checker import (
    REFUSED,
    RULES,
    Intent,
    Intents,
    decode_token,
    judge,
    read_intents,
)
from sendledger_sandbox.twilio import Accepted, Called, read_journal

PROVEN = frozenset({"accepted", "delivered"})
LEFT = {"inbox": "wait in the inbox", "quarantine": "were set aside"}


def violations(dsn: str, journal: Path, planned: Collection[str]) -> list[str]:
    """Return a sentence for each promise that ledger and journal together break; [] when all hold."""
    intents, told = read_intents(dsn), read_journal(journal)
    untied = [said for entry in told.accepted for said in _tie(intents, entry)]
    lost = [said for called in told.callbacks for said in _lost(intents, called)]
    sids = {entry.sid for entry in told.accepted}
    found = judge(intents, planned, (*RULES, _disagreeing))
    return [*untied, *lost, *_left(dsn), *_unknown_references(intents, sids), *found]


def _tie(intents: Intents, entry: Accepted) -> Iterator[str]:
    """Note *entry* with its intent, or say why it belongs to no committed attempt."""
    named = f"journal entry {entry.n}"
    decoded = decode_token(entry.token or "")
    if decoded is None:
        yield f"{named}: its token cannot be decoded"
        return
    intent_id, number = decoded
    intent = intents.get(intent_id)
    if intent is None or not intent.opened(number):
        yield f"{named}: attempt {number} of intent {intent_id} was never committed"
        return
    intent.taken.append(number)


def _lost(intents: Intents, called: Called) -> Iterator[str]:
    named = f"journal entry {called.n}"
    if called.answer is None or called.answer // 100 != 2:
        return
    if called.forged:
        yield f"{named}: a forged callback was answered {called.answer}"
        return
    intent_id, number = decode_token(called.token or "") or (0, 0)
    intent = intents.get(intent_id)
    identity = f"{number}/{called.sid}/{called.status}/{called.error_code or ''}"
    if intent is None or not any(
        (seen.source, seen.attempt, seen.identity) == ("receipt", number, identity)
        for seen in intent.observations
    ):
        yield f"{named}: the receipt {called.status} was answered {called.answer} and is lost"


def _left(dsn: str) -> Iterator[str]:
    with psycopg.connect(dsn) as connection:
        for table, where in LEFT.items():
            found = connection.execute(f"SELECT count(*) FROM sendledger.{table}".encode())
            [count] = found.fetchone() or [0]
            if count:
                yield f"{count} receipts {where}"


def _unknown_references(intents: Intents, sids: Collection[str]) -> Iterator[str]:
    for intent in intents.values():
        for seen in intent.observations:
            if seen.provider_reference is not None and seen.provider_reference not in sids:
                yield f"{intent.key[:12]}: row {seen.seq} names a message that the provider never took"


def _disagreeing(intent: Intent) -> Iterator[str]:
    """Compare what is known of each attempt with the journal; only what is unknown may be either way."""
    for attempt in intent.attempts:
        said, taken = intent.said_of(attempt.number), attempt.number in intent.taken
        if taken and any(seen.outcome in REFUSED and not seen.later for seen in said):
            yield f"attempt {attempt.number} stands refused, and the provider took it"
        if not taken and any(seen.outcome in PROVEN or seen.later for seen in said):
            yield f"attempt {attempt.number} stands accepted, and the provider never took it"
