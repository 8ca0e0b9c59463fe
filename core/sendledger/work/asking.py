"""Asking a provider about attempts: each written again as it was handed over, in bounded calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sendledger.logs import get_logger
from sendledger.plugin.channel import ContentFault
from sendledger.plugin.faults import PluginFault
from sendledger.plugin.port import ChannelPort
from sendledger.plugin.receipts import Asked, Found
from sendledger.store.looking import AskedRow
from sendledger.work.context import Workshop
from sendledger.work.envelope import Whom, write_envelope
from sendledger.work.ready import Writers

ASK_MAX = 20
ASK_WITHIN_S = 30.0
"""How long all that is asked together may take. The network's time, which no policy scales."""

log = get_logger(__name__)


class Asking:
    """Asks the provider of one channel."""

    def __init__(self, shop: Workshop, port: ChannelPort) -> None:
        self._shop, self._port = shop, port
        self._writers = Writers(shop.database, shop.compile_content)

    async def ask(self, rows: Sequence[AskedRow]) -> list[tuple[AskedRow, Found]]:
        """Return what is known of *rows*, those left out that can never be written again."""
        answers: list[tuple[AskedRow, Found]] = []
        written: list[tuple[AskedRow, Asked]] = []
        for row in rows:
            try:
                asked = await self._write(row)
            except (PluginFault, ValueError) as fault:  # its content does not compile now
                log.warning(
                    "look-up not written", content_id=row.content_id, fault=type(fault).__name__
                )
                answers.append((row, Found(failed="unwritten")))
                continue
            if asked is not None:
                written.append((row, asked))
        found = await self._ask([asked for _, asked in written])
        return answers + [(row, one) for (row, _), one in zip(written, found, strict=True)]

    async def message(self, row: AskedRow) -> bytes | None:
        """Return what *row* handed over, or None when that cannot be told."""
        try:
            asked = await self._write(row)
        except (PluginFault, ValueError):
            return None
        return None if asked is None else asked.envelope.message

    async def _write(self, row: AskedRow) -> Asked | None:
        """Return *row* as the provider is asked about it, or None when it cannot be written any more.

        Raises ``PluginFault`` and ``ValueError`` while its content does not compile.
        """
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

    async def _ask(self, asked: Sequence[Asked]) -> list[Found]:
        """Ask about attempts, a few at a time; what takes too long says nothing of them."""
        found: list[Found] = []
        try:
            async with asyncio.timeout(ASK_WITHIN_S):
                for begin in range(0, len(asked), ASK_MAX):
                    found += await self._port.look_up(asked[begin : begin + ASK_MAX])
        except TimeoutError:
            late = len(asked) - len(found)
            log.warning("look-up took too long", channel=self._port.name, count=late)
            found += [Found(failed="timeout")] * late
        return found
