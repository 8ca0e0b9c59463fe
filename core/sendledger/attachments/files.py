"""Reading attachments where they lie, through fsspec: in threads, a few at a time, each within a deadline."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

from sendledger.attachments.faults import (
    CHANGED,
    MISSING,
    TOO_LARGE,
    AttachmentFault,
    PlaceRefused,
    StoreAway,
)
from sendledger.attachments.places import Places
from sendledger.attachments.reference import Reference
from sendledger.settings.attachments import AttachmentSettings

READERS_MAX = 8
"""How many files are read at once; one whose store hangs counts until it lets go."""

_BLOCK_BYTES = 1 << 20

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What a file is: its SHA-256 in hex, and its size unless nobody has weighed it."""

    sha256: str
    size_bytes: int | None


class Files:
    """The files below the configured roots. For one event loop; nothing here blocks it."""

    def __init__(self, settings: AttachmentSettings) -> None:
        self.places = Places(settings.roots)
        self.max_bytes = settings.max_bytes
        self._within_s = settings.fetch_max.total_seconds()
        self._readers = asyncio.Semaphore(READERS_MAX)

    async def weigh(self, url: str) -> Weight:
        """Return digest and size of the file at *url*, of which a block is held at a time.

        Raises :class:`AttachmentFault`, :class:`PlaceRefused` and :class:`StoreAway`.
        """
        return await self._aside(lambda: self._weigh(url))

    async def fetch(self, reference: Reference) -> bytes:
        """Return the very file that *reference* was planned with. Raises as :meth:`weigh`."""
        return await self._aside(lambda: self._fetch(reference))

    def _weigh(self, url: str) -> Weight:
        digest, size_bytes = sha256(), 0
        for block in self._blocks(url):
            digest.update(block)
            size_bytes += len(block)
        return Weight(sha256=digest.hexdigest(), size_bytes=size_bytes)

    def _fetch(self, reference: Reference) -> bytes:
        content = b"".join(self._blocks(reference.url))
        if sha256(content).hexdigest() != reference.sha256:
            reason = "the file is not the one that was planned: its digest differs"
            raise AttachmentFault(CHANGED, reason, "plan it under a new content_revision")
        return content

    def _blocks(self, url: str) -> Iterator[bytes]:
        with self._translated(url):
            file_system, path = self.places.locate(url)
            found = file_system.info(path)
            if found.get("type", "file") != "file":
                raise AttachmentFault(MISSING, "there is no plain file", "name a file")
            if (found.get("size") or 0) > self.max_bytes:
                raise self._too_large()
            left = self.max_bytes + 1
            with file_system.open(path, "rb") as file:
                while left and (block := file.read(min(_BLOCK_BYTES, left))):
                    left -= len(block)
                    yield block
            if not left:
                raise self._too_large()

    def _too_large(self) -> AttachmentFault:
        reason = f"the file is larger than {self.max_bytes} bytes"
        return AttachmentFault(TOO_LARGE, reason, "make it smaller, or raise attachments.max_bytes")

    @contextmanager
    def _translated(self, url: str) -> Iterator[None]:
        """Say in our words what a file system raises; its own may quote a path or a secret."""
        try:
            yield
        except (AttachmentFault, PlaceRefused, StoreAway):
            raise
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            self.places.refuse_lost(url)
            raise AttachmentFault(MISSING, "there is no such file", "put it there") from None
        except PermissionError:
            raise StoreAway("PermissionError", alone=True) from None
        except Exception as error:  # noqa: BLE001 - file systems are others' code and raise what they like
            raise StoreAway(type(error).__name__) from None

    async def _aside(self, work: Callable[[], Answer]) -> Answer:
        try:
            async with asyncio.timeout(self._within_s):
                await self._readers.acquire()
                return await self._start(work)
        except TimeoutError:
            raise StoreAway("timeout") from None

    def _start(self, work: Callable[[], Answer]) -> asyncio.Future[Answer]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Answer] = loop.create_future()

        def finish(answer: Answer | None, error: Exception | None) -> None:
            self._readers.release()
            if done.done():  # nobody waits any more
                return
            if error is None:
                done.set_result(answer)  # type: ignore[arg-type] # without an error there is an answer
            else:
                done.set_exception(error)

        def read() -> None:
            answer, failed = None, None
            try:
                answer = work()
            except Exception as error:  # noqa: BLE001 - carried over to the loop
                failed = error
            with suppress(RuntimeError):  # the loop may be gone by now
                loop.call_soon_threadsafe(finish, answer, failed)

        # A daemon: an executor's thread would be waited for at exit, and a store that hangs never ends.
        threading.Thread(target=read, name="attachment", daemon=True).start()
        return done
