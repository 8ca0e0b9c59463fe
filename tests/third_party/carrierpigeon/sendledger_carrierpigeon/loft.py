"""A stand-in for a loft: takes notes on loopback, and does to them what it is told to.

    async with Loft() as loft:
        loft.play("451", "accept")     the next two notes; after them the last goes on
        ...                            a channel at loft.host, loft.port
    assert loft.taken[0].ring == "5550100"

A reaction is ``accept``; a three-digit code, said at RING, or with ``note-`` before it at NOTE; ``door-``
and a code, said in place of READY; ``close`` (at RING), ``lose`` (the note is taken, the answer is not
said), ``garble`` or ``stall``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Self

GARBAGE = b"\x00\xff\xfe coo" * 200 + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note that arrived whole, on the connection of that number."""

    connection: int
    ring: str
    line: bytes = field(repr=False)
    reference: str


class _Gone(Exception):  # noqa: N818 - the end of a visit is no error
    """The connection ends here."""


@dataclass(eq=False)
class Loft:
    """Listens on a free loopback port; ``said`` holds everything it ever answered."""

    host: str = "127.0.0.1"
    port: int = 0
    taken: list[Note] = field(default_factory=list)
    said: bytearray = field(default_factory=bytearray, repr=False)
    connections: int = 0
    visits: int = 0
    _script: deque[str] = field(default_factory=lambda: deque(["accept"]))
    _listener: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, repr=False)

    def play(self, *reactions: str) -> None:
        """React so to the next submissions; the last one goes on."""
        self._script = deque(reactions)

    async def __aenter__(self) -> Self:
        """Listen."""
        await self.open()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop."""
        await self.close()

    async def open(self) -> None:
        """Listen, again on the same port."""
        self._listener = await asyncio.start_server(self._meet, self.host, self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and cut every connection."""
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        listener.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not the stream's own task: Python 3.11 reports a cancelled one of those as an error.
        task = asyncio.create_task(self._visit(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._part(done, writer))

    def _part(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()
        self._tasks.discard(task)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections, self.visits = self.connections + 1, self.visits + 1
        number = self.visits
        try:
            await self._serve(number, reader, writer)
        except (OSError, _Gone):
            pass
        finally:
            self.connections -= 1

    async def _serve(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self._script[0].startswith("door-"):
            self._say(writer, f"{self._turn().removeprefix('door-')} not today")
            await writer.drain()
            return
        self._say(writer, "100 READY")
        ring, reaction = "", ""
        while line := await reader.readline():
            command, _, rest = line.partition(b" ")
            if command == b"RING":
                ring, reaction = rest.decode("ascii").strip(), self._turn()
                self._answer_ring(writer, reaction, ring)
            elif command == b"NOTE" and ring:
                await self._answer_note(writer, reaction, number, ring, line)
                ring = ""
            else:
                self._say(writer, "500 what?")

    def _turn(self) -> str:
        return self._script.popleft() if len(self._script) > 1 else self._script[0]

    def _answer_ring(self, writer: asyncio.StreamWriter, reaction: str, ring: str) -> None:
        if reaction == "close":
            raise _Gone
        self._say(writer, f"{reaction} not {ring}" if reaction.isdigit() else "200 GO")

    async def _answer_note(
        self, writer: asyncio.StreamWriter, reaction: str, number: int, ring: str, line: bytes
    ) -> None:
        if reaction.startswith("note-"):
            self._say(writer, f"{reaction.removeprefix('note-')} no")
            return
        reference = f"P{len(self.taken) + 1:04d}"
        self.taken.append(Note(connection=number, ring=ring, line=line, reference=reference))
        match reaction:
            case "lose":
                raise _Gone
            case "stall":
                await asyncio.Event().wait()
            case "garble":
                self._write(writer, GARBAGE)
            case _:
                self._say(writer, f"201 {reference}")

    def _say(self, writer: asyncio.StreamWriter, reply: str) -> None:
        self._write(writer, reply.encode() + b"\n")

    def _write(self, writer: asyncio.StreamWriter, octets: bytes) -> None:
        self.said += octets
        writer.write(octets)
