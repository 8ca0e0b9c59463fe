"""The bytes of attachments while they are needed: each fetched once, and never too many at a time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sendledger.attachments.files import Files
from sendledger.attachments.reference import Reference


class Cache:
    """Lends files by their digest, and keeps the last ones for the next who asks.

    At most *max_bytes* are kept, and as many are lent at a time; a message that needs more goes alone.
    """

    def __init__(self, files: Files, *, max_bytes: int) -> None:
        self.kept_bytes = 0
        self.lent_bytes = 0
        self._files = files
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._coming: dict[tuple[str, str], asyncio.Task[bytes]] = {}
        self._returned = asyncio.Event()

    @asynccontextmanager
    async def lend(self, references: Sequence[Reference]) -> AsyncIterator[tuple[bytes, ...]]:
        """Lend the files of one message, in order; waits while others have too much of them.

        Raises ``AttachmentFault``, ``PlaceRefused`` and ``StoreAway``.
        """
        wanted = sum(self._weight(one) for one in references)
        while self.lent_bytes and self.lent_bytes + wanted > self._max_bytes:
            await self._returned.wait()
        self.lent_bytes += wanted
        try:
            yield tuple([await self._content(one) for one in references])
        finally:
            self.lent_bytes -= wanted
            self._returned.set()
            self._returned = asyncio.Event()

    def _weight(self, reference: Reference) -> int:
        size = reference.size_bytes
        return self._files.max_bytes if size is None else size

    async def _content(self, reference: Reference) -> bytes:
        kept = self._kept.get(reference.sha256)
        if kept is not None:
            self._kept.move_to_end(reference.sha256)
            return kept
        # Shielded: whoever else waits for the same file needs it still.
        return await asyncio.shield(self._fetching(reference))

    def _fetching(self, reference: Reference) -> asyncio.Task[bytes]:
        # By its place too: the same file may be missing at one and lie at the other.
        name = (reference.sha256, reference.url)
        if name not in self._coming:
            task = asyncio.create_task(self._files.fetch(reference))
            self._coming[name] = task
            task.add_done_callback(lambda done: self._fetched(name, done))
        return self._coming[name]

    def _fetched(self, name: tuple[str, str], task: asyncio.Task[bytes]) -> None:
        del self._coming[name]
        if not task.cancelled() and task.exception() is None:
            self._keep(name[0], task.result())

    def _keep(self, sha256: str, content: bytes) -> None:
        if sha256 not in self._kept:
            self._kept[sha256] = content
            self.kept_bytes += len(content)
        while self.kept_bytes > self._max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self.kept_bytes -= len(oldest)
