"""Presence: this worker's entry in the register, for whoever asks who works. It decides nothing."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from sendledger import __version__
from sendledger.store import workers
from sendledger.store.database import Database, DatabaseAway
from sendledger.store.workers import Presence
from sendledger.work.progress import Progress
from sendledger.work.stopping import Stop

EVERY = timedelta(seconds=10)


class Register:
    """Keeps one worker's entry fresh while it runs, and takes it out when it ends in order."""

    def __init__(
        self, database: Database, worker_id: UUID, channels: tuple[str, ...], progress: Progress
    ) -> None:
        self._database, self._worker_id = database, worker_id
        self._channels, self._progress = channels, progress

    async def run(self, stop: Stop) -> None:
        """Say that we are here until everything ended."""
        while True:
            with suppress(DatabaseAway):
                await self._note()
            if await stop.ended(within=EVERY):
                return

    async def leave(self) -> None:
        """Take the entry out; when that fails, it shows as silent and is forgotten in a day."""
        with suppress(DatabaseAway):
            async with self._database.connection() as connection:
                await workers.forget_worker(connection, self._worker_id)

    async def _note(self) -> None:
        presence = Presence(
            worker_id=self._worker_id,
            pid=os.getpid(),
            host=socket.gethostname(),
            version=__version__,
            channels=self._channels,
            in_flight=self._progress.in_flight,
        )
        async with self._database.connection() as connection:
            await workers.note_worker(connection, presence)
