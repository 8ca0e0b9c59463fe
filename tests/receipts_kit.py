"""Receipts for tests: said in a word, kept in the inbox, and folded as the loop does."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime

from ledger_rig import Rig
from sendledger.journal.inbox import new_receipt
from sendledger.journal.receipts import Folded, fold_receipts, read_receipt
from sendledger.ledger.classification import sound_later
from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.tokens import Correlation
from sendledger.ledger.words import Outcome, Scope
from sendledger.plugin import Receipt
from sendledger.store import inbox
from sendledger.store.inbox import NewReceipt, ReceiptRow

CHANNELS = ("mail", "text")
MEANINGS = {
    "sent": Classification(rule="test.sent", outcome=Outcome.ACCEPTED),
    "arrived": Classification(rule="test.arrived", outcome=Outcome.DELIVERED),
    "away": Classification(rule="test.away", outcome=Outcome.TRANSIENT),
    "never": Classification(rule="test.never", outcome=Outcome.PERMANENT),
    "unregistered": Classification(
        rule="test.unregistered", outcome=Outcome.PERMANENT, scope=Scope.SENDER
    ),
}


def classify(_channel: str, evidence: Evidence) -> Classification:
    """Say what a receipt of the kit means."""
    return sound_later(MEANINGS.get(evidence.facts.get("word", "")))


def saying(word: str, *, reference: str | None = "SM1") -> Evidence:
    """Return the evidence of a receipt that says *word*."""
    return Evidence(
        stage="receipt",
        handed_over=True,
        answered=True,
        literal=f"MessageStatus={word}".encode(),
        provider_reference=reference,
        facts={"word": word},
    )


def receipt_row(
    intent_id: int,
    word: str,
    *,
    number: int = 1,
    channel: str = "mail",
    identity: str | None = None,
    occurred_at: datetime | None = None,
) -> NewReceipt:
    """Return a receipt about attempt *number* as it is kept."""
    tied = Correlation(intent_id=intent_id, attempt_number=number, key_id=1)
    receipt = Receipt(identity=identity or word, evidence=saying(word), occurred_at=occurred_at)
    return new_receipt(channel, tied, receipt, b"")


async def keep(rig: Rig, *rows: NewReceipt) -> None:
    """Commit receipts as one group."""
    async with rig.database.connection() as connection:
        await inbox.add_receipts(connection, rows)


async def waiting(rig: Rig, *, rows_max: int = 1000) -> list[ReceiptRow]:
    """Return what waits in the inbox."""
    async with rig.database.connection() as connection:
        return await inbox.find_receipts(connection, CHANNELS, rows_max=rows_max)


async def fold(rig: Rig, rows: Sequence[ReceiptRow] | None = None) -> Folded:
    """Fold what waits, or *rows*."""
    found = await waiting(rig) if rows is None else rows
    return await fold_receipts(
        rig.recorder, [read_receipt(row, classify, chance=0) for row in found]
    )


async def bring(rig: Rig, *rows: NewReceipt) -> Folded:
    """Keep receipts and fold all that waits."""
    await keep(rig, *rows)
    return await fold(rig)


def floored(word: str, **changes: object) -> Classification:
    """Return a meaning of the kit with some of it changed."""
    return dataclasses.replace(MEANINGS[word], **changes)  # type: ignore[arg-type]
