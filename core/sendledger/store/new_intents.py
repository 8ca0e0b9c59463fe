"""Intents on their way into the ledger: a row in each of three tables, as COPY takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sendledger.store.copy_binary import (
    NO_FIELD,
    bigint_field,
    bytes_fields,
    copy_rows,
    instant_field,
    smallint_field,
    text_field,
)

DIGEST_BYTES = 16
DOMAIN_KEY_BYTES = 8


class NewIntent(NamedTuple):
    """One recipient of a batch. The texts are the erasable side row; ``variables`` is JSON.

    The digests have 16 bytes; ``domain_key`` has 8, or is None where no domain is limited. What is
    attached is told in JSON: digests and types for the intent, places and names for the side row; both
    are empty when nothing is. A tuple, because there are millions of them.
    """

    intent_key: bytes
    recipient_fingerprint: bytes
    destination_fingerprint: bytes
    content_digest: bytes
    recipient_id: str
    destination: str
    variables: str
    domain_key: bytes | None = None
    attachments: str = ""
    attachment_places: str = ""

    def __repr__(self) -> str:
        return f"NewIntent(intent_key={self.intent_key.hex()})"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentsCopy:
    """New intents of one batch, as many *rows* as *intent_ids*.

    The order of fields is that of the statements.
    """

    intent_ids: Sequence[int]
    rows: Sequence[NewIntent]
    batch_id: int
    eligible_at: datetime

    def intents(self, *, not_after: datetime | None) -> bytes:
        """Return the rows of ``copy_intents``."""
        rows = self.rows
        return copy_rows(
            map(bigint_field, self.intent_ids),
            bytes_fields([row.intent_key for row in rows], item_bytes=DIGEST_BYTES),
            bytes_fields([row.recipient_fingerprint for row in rows], item_bytes=DIGEST_BYTES),
            bytes_fields([row.destination_fingerprint for row in rows], item_bytes=DIGEST_BYTES),
            bytes_fields([row.content_digest for row in rows], item_bytes=DIGEST_BYTES),
            bytes_fields([row.domain_key for row in rows], item_bytes=DOMAIN_KEY_BYTES),
            _attached(row.attachments for row in rows),
            count=len(rows),
            constants=(
                bigint_field(self.batch_id),
                instant_field(self.eligible_at),
                instant_field(not_after),
            ),
        )

    def secrets(self) -> bytes:
        """Return the rows of ``copy_secrets``."""
        rows = self.rows
        return copy_rows(
            map(bigint_field, self.intent_ids),
            [text_field(row.recipient_id) for row in rows],
            [text_field(row.destination) for row in rows],
            [text_field(row.variables) for row in rows],
            _attached(row.attachment_places for row in rows),
            count=len(rows),
        )

    def deliveries(self, *, lane: int, channel: str) -> bytes:
        """Return the rows of ``copy_deliveries``."""
        instant = instant_field(self.eligible_at)
        return copy_rows(
            map(bigint_field, self.intent_ids),
            count=len(self.rows),
            constants=(
                bigint_field(self.batch_id),
                instant,
                instant,
                smallint_field(lane),
                *map(text_field, (channel, "planned", "dispatch")),
            ),
        )


def _attached(texts: Iterable[str]) -> list[bytes]:
    return [text_field(text) if text else NO_FIELD for text in texts]
