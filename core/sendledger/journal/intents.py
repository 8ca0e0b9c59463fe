"""Intents of rows that can be addressed and written, made column by column: digests, and what they are of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat

from sendledger.attachments import Reference, facts_text, identity_of, places_text
from sendledger.journal.batch import Batch, Row
from sendledger.keys import KeyRing
from sendledger.ledger.identity import IntentKeys, Keyed
from sendledger.plugin import Destination
from sendledger.store.new_intents import DOMAIN_KEY_BYTES, NewIntent

DOMAINS_MAX = 4096

Written = tuple[str, Destination, Row, str]
"""The recipient's id as it is stored, the destination, the row, and its variables as JSON."""


class Intents:
    """Makes the intents of one batch."""

    def __init__(self, batch: Batch, keys: KeyRing, *, revision_hex: str) -> None:
        """Work out what all intents of *batch* share; *revision_hex* is that of its template."""
        self._attachments = len(batch.attachments)
        self._content_digests = Keyed(keys.intent_key_key, revision_hex)
        self._intent_keys = IntentKeys(
            keys.intent_key_key,
            report=batch.report,
            channel=batch.channel,
            revision=batch.content_revision,
        )
        self._recipient_prints = Keyed(keys.recipient_key)
        self._destination_prints = Keyed(keys.destination_key)
        self._domain_key = lru_cache(DOMAINS_MAX)(self._key_of_domain)

    def key_of(self, recipient: str) -> bytes:
        """Return the intent key of *recipient*, whose id is one already."""
        (key,) = self._intent_keys.each_clean([recipient])
        return key

    def make(self, written: Sequence[Written]) -> list[NewIntent]:
        """Return the intents of rows, in order."""
        if not written:
            return []
        recipients, destinations, rows, texts = zip(*written, strict=True)
        addresses, canonicals, domains = zip(*destinations, strict=True)
        attached = [row.attachments for row in rows]
        # By their places: names cost as much as a digest.
        columns = zip(
            self._intent_keys.each_clean(recipients),
            self._recipient_prints.each(recipients),
            self._destination_prints.each(canonicals),
            self._digests(texts, attached),
            recipients,
            addresses,
            texts,
            [None if domain is None else self._domain_key(domain) for domain in domains],
            map(facts_text, attached) if self._attachments else repeat("", len(written)),
            map(places_text, attached) if self._attachments else repeat("", len(written)),
            strict=True,
        )
        return list(map(NewIntent._make, columns))

    def _digests(
        self, texts: Sequence[str], attached: Sequence[tuple[Reference, ...]]
    ) -> list[bytes]:
        assert set(map(len, attached)) == {self._attachments}, "a row was not attached"
        if not self._attachments:
            return self._content_digests.each(texts)
        return [
            self._content_digests.of(text, identity_of(references))
            for text, references in zip(texts, attached, strict=True)
        ]

    def _key_of_domain(self, domain: str) -> bytes:
        """Return what the limits of a destination domain are counted under."""
        return self._destination_prints.of("domain", domain)[:DOMAIN_KEY_BYTES]
