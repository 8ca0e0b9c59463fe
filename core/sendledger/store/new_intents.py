"""Intents on their way into the ledger: a row in each of three tables, as COPY takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import repeat
from typing import NamedTuple

from sendledger.store.copy_binary import (
    NO_FIELD,
    bigint_field,
    bigint_fields,
    bytes_fields,
    copy_rows,
    instant_field,
    smallint_field,
    text_fields,
)

DIGEST_BYTES = 16
DOMAIN_KEY_BYTES = 8
BLOCK_ROWS = 500


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


class IntentsCopy:
    """New intents of one batch on their way into their tables, some rows at a time.

    The order of fields is that of the statements.
    """

    def __init__(
        self,
        intent_ids: Sequence[int],
        rows: Sequence[NewIntent],
        *,
        batch_id: int,
        eligible_at: datetime,
    ) -> None:
        """Take *rows*, and as many *intent_ids*."""
        self._blocks = [
            (
                bigint_fields(intent_ids[first : first + BLOCK_ROWS]),
                rows[first : first + BLOCK_ROWS],
            )
            for first in range(0, len(rows), BLOCK_ROWS)
        ]
        self._batch_id = bigint_field(batch_id)
        self._eligible_at = instant_field(eligible_at)

    def intents(self, *, not_after: datetime | None) -> Iterator[bytes]:
        """Yield the rows of ``copy_intents``."""
        constants = (self._batch_id, self._eligible_at, instant_field(not_after))
        for ids, rows in self._blocks:
            keys, recipients, destinations, contents, *_, domains, attached, _ = zip(
                *rows, strict=True
            )
            yield copy_rows(
                ids,
                bytes_fields(keys, item_bytes=DIGEST_BYTES),
                bytes_fields(recipients, item_bytes=DIGEST_BYTES),
                bytes_fields(destinations, item_bytes=DIGEST_BYTES),
                bytes_fields(contents, item_bytes=DIGEST_BYTES),
                bytes_fields(domains, item_bytes=DOMAIN_KEY_BYTES),
                _attached(attached),
                count=len(rows),
                constants=constants,
            )

    def secrets(self) -> Iterator[bytes]:
        """Yield the rows of ``copy_secrets``."""
        for ids, rows in self._blocks:
            *_, recipient_ids, destinations, variables, _, _, places = zip(*rows, strict=True)
            yield copy_rows(
                ids,
                text_fields(recipient_ids),
                text_fields(destinations),
                text_fields(variables),
                _attached(places),
                count=len(rows),
            )

    def deliveries(self, *, lane: int, channel: str) -> Iterator[bytes]:
        """Yield the rows of ``copy_deliveries``."""
        instants = (self._eligible_at, self._eligible_at)
        words = text_fields([channel, "planned", "dispatch"])
        constants = (self._batch_id, *instants, smallint_field(lane), *words)
        for ids, rows in self._blocks:
            yield copy_rows(ids, count=len(rows), constants=constants)


def _attached(texts: Sequence[str]) -> Iterable[bytes]:
    if not any(texts):
        return repeat(NO_FIELD, len(texts))
    return [
        field if text else NO_FIELD for text, field in zip(texts, text_fields(texts), strict=True)
    ]
