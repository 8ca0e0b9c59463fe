"""What goes with a message: its files are lent for one handoff; a store that is away makes rows wait."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from sendledger.attachments import (
    AttachmentFault,
    Cache,
    PlaceRefused,
    Reference,
    StoreAway,
    references_of,
)
from sendledger.ledger.policy import Policy
from sendledger.logs import get_logger
from sendledger.plugin.channel import Attachment, Capabilities, ContentFault
from sendledger.store.deliveries import Claimed

log = get_logger(__name__)


class AttachmentsAway(Exception):  # noqa: N818 - not an error: they come back
    """The files cannot be had now: the row waits for *wait*, and nothing is opened."""

    def __init__(self, wait: timedelta) -> None:
        super().__init__("the store of attachments is away")
        self.wait = wait


class Enclosures:
    """The files of one channel's messages."""

    def __init__(self, cache: Cache, policy: Policy, capabilities: Capabilities) -> None:
        self._cache = cache
        self._capabilities = capabilities
        self._outage = Outage(policy=policy)

    @asynccontextmanager
    async def lend(self, row: Claimed) -> AsyncIterator[tuple[Attachment, ...]]:
        """Lend what goes with *row*, each the very file that was planned.

        Raises ``ContentFault`` for a file that can never go with it, :class:`AttachmentsAway` otherwise.
        """
        assert row.attachments is not None and row.attachment_places is not None  # noqa: PT018
        if not self._capabilities.attachments:
            raise ContentFault("attachment.unsupported", "the channel carries no files")
        references = references_of(row.attachments, row.attachment_places)
        async with AsyncExitStack() as lent:
            contents = await self._borrow(row, references, lent)
            yield tuple(map(_attachment, references, contents))

    async def _borrow(
        self, row: Claimed, references: Sequence[Reference], lent: AsyncExitStack
    ) -> tuple[bytes, ...]:
        wait = self._outage.ask(row.intent_id, time.monotonic())
        if wait is not None:
            raise AttachmentsAway(wait)
        try:
            contents = await lent.enter_async_context(self._cache.lend(references))
        except AttachmentFault as fault:
            self._outage.over()  # a store that says what is wrong with a file is there
            raise ContentFault(fault.rule, fault.reason) from None
        except (PlaceRefused, StoreAway) as away:
            raise AttachmentsAway(self._met(row, away)) from None
        finally:
            self._outage.done(row.intent_id)
        self._outage.over()
        return contents

    def _met(self, row: Claimed, away: PlaceRefused | StoreAway) -> timedelta:
        """Count what kept *row* from its files, and return how long it waits."""
        if isinstance(away, StoreAway) and not away.alone:
            log.warning("store of attachments away", fault=away.fault)
            return self._outage.met(row.intent_id, time.monotonic())
        # A place that is no root any more, or a file we may not read: settings or rights will change.
        fault = away.fault if isinstance(away, StoreAway) else "outside of the roots"
        log.warning("attachment kept from us", fault=fault, intent_key=row.intent_key.hex())
        return self._outage.policy.probe_max


@dataclass(slots=True, kw_only=True)
class Outage:
    """When a store that does not answer is asked again: ever more rarely, as policy says of back-off.

    One row alone closes it for nobody else, whatever it meets: it may be the row. After an outage only as
    many ask at a time as can tell that it goes on; a store that hangs would take every slot otherwise.
    """

    policy: Policy
    _intents: set[int] = field(default_factory=set)
    _asking: set[int] = field(default_factory=set)
    _closed_until: float = 0.0
    _wait: timedelta = timedelta(0)

    def ask(self, intent_id: int, now: float) -> timedelta | None:
        """Return how long a row waits before it may ask; None: now, until :meth:`done`."""
        if (left := self._left(now)) is not None:
            return left
        if self._wait and len(self._asking) >= self.policy.back_off_intents:
            return self.policy.probe
        self._asking.add(intent_id)
        return None

    def done(self, intent_id: int) -> None:
        """Let others ask in the place of a row that had its answer, or waits for none any more."""
        self._asking.discard(intent_id)

    def met(self, intent_id: int, now: float) -> timedelta:
        """Count a row that met the outage; returns how long it waits."""
        self._intents.add(intent_id)
        if (left := self._left(now)) is not None:
            return left
        if len(self._intents) < self.policy.back_off_intents:
            return self.policy.probe
        self._intents.clear()
        self._wait = min(max(2 * self._wait, self.policy.probe), self.policy.probe_max)
        self._closed_until = now + self._wait.total_seconds()
        return self._wait

    def over(self) -> None:
        """Forget what happened before: the store gave something."""
        self._intents.clear()
        self._closed_until, self._wait = 0.0, timedelta(0)

    def _left(self, now: float) -> timedelta | None:
        """Return how long it is closed yet, and at least so long that nobody spins."""
        left = timedelta(seconds=self._closed_until - now)
        return max(left, self.policy.probe / 10) if left > timedelta(0) else None


def _attachment(reference: Reference, content: bytes) -> Attachment:
    return Attachment(name=reference.name, media_type=reference.media_type, content=content)
