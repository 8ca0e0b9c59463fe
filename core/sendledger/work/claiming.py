"""Claiming the rows of one channel, lane by lane, without re-reading the queue's dead past."""

from __future__ import annotations

import time
from datetime import datetime
from uuid import UUID

from sendledger.ledger.words import Lane
from sendledger.store import deliveries
from sendledger.store.database import Connection
from sendledger.store.deliveries import Claimed, ClaimRequest
from sendledger.work.context import Workshop
from sendledger.work.leases import Leases

REMEMBERED_S = 3.0


class Claiming:
    """Claims for one channel. Remembers from where on rows can still be due.

    Index entries of rows that are done stay readable while any old snapshot lives, and every claim
    would step over all of them. The bound is dropped every few seconds, for rows that came back with
    an earlier instant: they are only a little later then, never lost.
    """

    def __init__(self, shop: Workshop, channel: str, leases: Leases) -> None:
        self._shop, self._channel, self._leases = shop, channel, leases
        self._from: dict[Lane, tuple[datetime, int]] = {}
        self._forget_at = time.monotonic() + REMEMBERED_S

    async def claim(
        self, connection: Connection, lane: Lane, claim_max: int, *, probing: bool = False
    ) -> tuple[UUID, list[Claimed]]:
        """Claim due rows of *lane*; returns their claim token with them."""
        self._forget_in_time()
        wake_from, intent_from = self._from.get(lane, (None, None))
        request = ClaimRequest(
            channel=self._channel,
            lane=lane,
            claim_token=self._shop.new_token(),
            claim_max=claim_max,
            lease=self._leases.lease,
            wake_from=wake_from,
            intent_from=intent_from,
            probing=probing,
        )
        rows = await deliveries.claim_deliveries(connection, request)
        self._leases.took(request.claim_token, len(rows))
        if len(rows) == claim_max:
            self._from[lane] = (rows[0].wake_at, rows[0].intent_id)
        else:
            self._from.pop(lane, None)
        return request.claim_token, rows

    def _forget_in_time(self) -> None:
        now = time.monotonic()
        if now >= self._forget_at:
            self._from.clear()
            self._forget_at = now + REMEMBERED_S
