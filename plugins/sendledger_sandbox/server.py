"""The capture server: listens, can be taken down and brought back on its port, and keeps the journal."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sendledger_sandbox.journal import Journal
from sendledger_sandbox.relay import Relay
from sendledger_sandbox.session import Session
from sendledger_sandbox.wire import Wire


@dataclass(kw_only=True, eq=False)
class CaptureServer(Relay):
    """An SMTP server that journals what it accepts; an async context manager.

    *port* 0 takes a free one; after entering, ``port`` is the real one and stays it. *keep* is a folder for
    the messages themselves. *fsync* off makes a benchmark of the peer rather than of the disk.
    """

    journal: Path
    host: str = "127.0.0.1"
    port: int = 0
    keep: Path | None = None
    fsync: bool = True

    _journal: Journal = field(init=False, repr=False)
    _listener: asyncio.Server | None = field(default=None, init=False, repr=False)
    _faults: list[BaseException] = field(default_factory=list, init=False, repr=False)
    _sessions: set[asyncio.Task[None]] = field(default_factory=set, init=False, repr=False)

    async def __aenter__(self) -> Self:
        """Open the journal and listen. Raises ``OSError`` and ``JournalFault``."""
        self._journal = Journal(self.journal, fsync=self.fsync, keep=self.keep).open()
        try:
            await self.reopen()
        except BaseException:
            await self._journal.close()
            raise
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Stop. Raises what the observer raised, so that a failed check in one is not lost."""
        await self.close()
        await self._journal.close()
        if self._faults:
            raise self._faults[0]

    async def reopen(self) -> None:
        """Listen on the same port again; counts and script turns go on. Raises ``OSError``."""
        if self._listener is not None:
            return
        context = self.tls if self.implicit_tls else None
        self._listener = await asyncio.start_server(self._meet, self.host, self.port, ssl=context)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and cut every connection; new ones are refused by the system."""
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        listener.close()
        sessions = tuple(self._sessions)
        for session in sessions:
            session.cancel()
        await asyncio.gather(*sessions, return_exceptions=True)
        await listener.wait_closed()

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of ours and not the stream's own: Python 3.11 reports a cancelled one of its own as an error.
        task = asyncio.create_task(self._serve(reader, writer))
        self._sessions.add(task)
        task.add_done_callback(lambda done: self._part(done, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer, strict=self.strict, idle_s=self.idle_s)
        try:
            await Session(self, self._journal, wire, number=self.connections.opened()).serve()
        finally:
            self.connections.closed()

    def _part(self, session: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        # A session that was cancelled before its first step never came to close its connection.
        writer.transport.abort()
        self._sessions.discard(session)
        if not session.cancelled() and (fault := session.exception()) is not None:
            self._faults.append(fault)
