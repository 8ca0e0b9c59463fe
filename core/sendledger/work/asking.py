"""Asking a provider about attempts: each written again as it was handed over, in bounded calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sendledger.logs import get_logger
from sendledger.plugin.channel import ContentFault
from sendledger.plugin.port import ChannelPort
from sendledger.plugin.receipts import Asked, Found
from sendledger.store.looking import AskedRow
from sendledger.work.context import Workshop
from sendledger.work.envelope import Whom, write_envelope
from sendledger.work.ready import Writers

ASK_MAX = 20
ASK_WITHIN_S = 30.0

log = get_logger(__name__)


class Asking:
    """Asks the provider of one channel."""

    def __init__(self, shop: Workshop, port: ChannelPort) -> None:
        self._shop, self._port = shop, port
        self._writers = Writers(shop.database, shop.compile_content)

    async def write(self, row: AskedRow) -> Asked | None:
        """Return *row* as the provider is asked about it, or None when it cannot be written any more."""
        if row.destination is None or row.variables is None:
            return None
        writer = await self._writers.of(self._port.name, row.content_id, self._port.prepare)
        if isinstance(writer, ContentFault):
            return None
        whom = Whom(
            intent_id=row.intent_id,
            intent_key=row.intent_key,
            number=row.number,
            token_key_id=row.token_key_id,
            destination=row.destination,
            variables=row.variables,
            not_after=row.not_after,
        )
        try:
            envelope = write_envelope(self._shop, self._port, writer, whom)
        except (ContentFault, KeyError):  # the key of its token may be gone
            return None
        return Asked(
            envelope=envelope,
            provider_reference=row.provider_reference,
            opened_at=row.opened_at,
            result_due_at=row.result_due_at,
        )

    async def ask(self, asked: Sequence[Asked]) -> list[Found]:
        """Ask about attempts, a few at a time; what takes too long says nothing of them."""
        found: list[Found] = []
        for begin in range(0, len(asked), ASK_MAX):
            some = asked[begin : begin + ASK_MAX]
            try:
                async with asyncio.timeout(ASK_WITHIN_S):
                    found += await self._port.look_up(some)
            except TimeoutError:
                log.warning("look-up took too long", channel=self._port.name, count=len(some))
                found += [Found(failed="timeout")] * len(some)
        return found
