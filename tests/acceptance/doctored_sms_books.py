"""Books of SMS to be doctored: as :mod:`acceptance.doctored_books`, with the journal of a provider."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from acceptance.doctored_books import Books, token_of
from acceptance.sms_checker import violations

PLANNED = ("S1", "S2", "S3", "S4")
"""Delivered; delivered by the second attempt; refused at once; ambiguous, and in nobody's journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmsBooks(Books):
    """A ledger, and a journal of messages and callbacks."""

    def take(self, n: int, number: int, **changes: Any) -> None:
        """Let the provider take an attempt."""
        entry = {
            "kind": "accepted",
            "sid": sid_of(n, number),
            "to": "+12025550101",
            "sender": "+15005550006",
            "service_sid": None,
            "token": token_of(n, number),
            "body_sha256": "00",
        }
        self._note(entry | changes)

    def call(self, n: int, number: int, status: str, **changes: Any) -> None:
        """Let the provider tell a status."""
        entry = {
            "kind": "callback",
            "sid": sid_of(n, number),
            "token": token_of(n, number),
            "status": status,
            "error_code": None,
            "forged": False,
            "tries": 1,
            "answer": 204,
        }
        self._note(entry | changes)

    def receipt(
        self, n: int, seq: int, number: int, status: str, code: str = "", **said: Any
    ) -> None:
        """Add the observation of a callback."""
        sid = sid_of(n, number)
        identity = f"{number}/{sid}/{status}/{code}"
        found = {"source": "receipt", "identity": identity, "provider_reference": sid}
        self.observe(n, seq, attempt=number, later=True, **{**found, **said})

    def complaints(self) -> list[str]:
        """Return what the checker holds against the books."""
        return violations(self.dsn, self.journal, PLANNED)

    def _note(self, entry: dict[str, Any]) -> None:
        n = len(self.journal.read_bytes().splitlines()) + 1
        at = datetime(2026, 3, 2, tzinfo=UTC).isoformat()
        with self.journal.open("a") as file:
            file.write(json.dumps({"n": n, "at": at, **entry}) + "\n")


def sid_of(n: int, number: int) -> str:
    """Return the identifier of the message that an attempt became."""
    return f"SM{n:016x}{number:016x}"


def keep(books: SmsBooks) -> None:
    """Write a ledger and a journal of SMS in which everything is right."""
    _delivered(books)
    _delivered_later(books)
    _refused(books)
    _ambiguous(books)


def _delivered(books: SmsBooks) -> None:
    books.intent(1, "delivered", None, attempts=1, seq=4)
    books.attempt(1, 1, 1)
    books.observe(1, 2, attempt=1, outcome="accepted", provider_reference=sid_of(1, 1))
    books.receipt(1, 3, 1, "sent", outcome="accepted")
    books.receipt(1, 4, 1, "delivered", outcome="delivered")
    books.take(1, 1)
    books.call(1, 1, "sent")
    books.call(1, 1, "delivered")


def _delivered_later(books: SmsBooks) -> None:
    books.intent(2, "delivered", None, attempts=2, seq=6)
    books.attempt(2, 1, 1)
    books.receipt(2, 2, 1, "undelivered", "30003", outcome="transient", scope="recipient")
    books.observe(2, 3, source="policy", ruling="retry", authorises=2)
    books.attempt(2, 2, 4, decision=3)
    books.observe(2, 5, attempt=2, outcome="accepted")
    books.receipt(2, 6, 2, "delivered", outcome="delivered")
    books.take(2, 1)
    books.call(2, 1, "undelivered", error_code=30003)
    books.take(2, 2)
    books.call(2, 2, "delivered")


def _refused(books: SmsBooks) -> None:
    books.intent(3, "failed", None, attempts=1, seq=2)
    books.attempt(3, 1, 1)
    books.observe(3, 2, attempt=1, outcome="permanent", scope="recipient")


def _ambiguous(books: SmsBooks) -> None:
    books.intent(4, "ambiguous", "evidence", attempts=1, seq=2)
    books.attempt(4, 1, 1)
    books.observe(4, 2, source="lease", attempt=1, outcome="ambiguous")
