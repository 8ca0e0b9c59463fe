"""A stand-in for a loft: takes notes on loopback, and does to them what it is told to.

    async with Loft() as loft:
        loft.play("451", "accept")     the next two notes; after them the last goes on
        ...                            a channel at loft.host, loft.port
    assert loft.taken[0].ring == "5550100"
    loft.settle(loft.taken[0], "home")          what is told to whoever asks
    await loft.tell(loft.taken[0], "home")      and to the address that came with the note

A reaction is ``accept``; a three-digit code, said at RING, or with ``note-`` before it at NOTE; ``door-``
and a code, said in place of READY; ``close`` (at RING), ``lose`` (the note is taken, the answer is not
said), ``garble`` or ``stall``. The last one is also met by questions, where it is one of these three.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections import deque
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Self
from urllib.parse import urlsplit

GARBAGE = b"\x00\xff\xfe coo" * 200 + b"\n"
UNANSWERED = frozenset({"lose", "garble", "stall"})
SECRET = "what pigeons know"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note that arrived whole, on the connection of that number."""

    connection: int
    ring: str
    tag: str
    home: str | None
    line: bytes = field(repr=False)
    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What the loft posts about a note."""

    url: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True, kw_only=True)
class _Visit:
    """One connection, and the note that is being made out on it."""

    connection: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    ring: str = ""
    tag: str = ""
    home: str | None = None
    reaction: str = ""


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
    name: str = "loft"
    secret: str = field(default=SECRET, repr=False)
    words: dict[str, str] = field(default_factory=dict)
    _script: deque[str] = field(default_factory=lambda: deque(["accept"]))
    _listener: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, repr=False)

    def play(self, *reactions: str) -> None:
        """React so to the next submissions; the last one goes on."""
        self._script = deque(reactions)

    def settle(self, note: Note, word: str) -> None:
        """Answer *word* from now on to whoever asks about *note*."""
        self.words[note.reference] = word

    def forget(self, note: Note) -> None:
        """Know nothing of *note* any more."""
        del self.words[note.reference]

    def post_of(self, note: Note, word: str, *, secret: str | None = None, **said: str) -> Post:
        """Return what is posted when *word* is told of *note*; with another secret or other words if given."""
        url = note.home or ""
        told = {"loft": self.name, "note": note.reference, "word": word} | said
        body = json.dumps(told).encode()
        key = (secret or self.secret).encode()
        signature = hmac.new(key, f"{url}\n".encode() + body, sha256).hexdigest()
        return Post(
            url=url,
            headers={"Content-Type": "application/json", "Loft-Signature": signature},
            body=body,
        )

    async def tell(self, note: Note, word: str) -> int:
        """Post *word* about *note* to the address that came with it; returns the status of the answer."""
        return await post(self.post_of(note, word))

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
        visit = _Visit(connection=number, reader=reader, writer=writer)
        while line := await reader.readline():
            await self._hear(visit, line)

    async def _hear(self, visit: _Visit, line: bytes) -> None:
        command, _, rest = line.partition(b" ")
        words = rest.decode("utf-8", "replace").split()
        match command, words:
            case b"RING", [ring, tag]:
                visit.ring, visit.tag, visit.home = ring, tag, None
                visit.reaction = self._turn()
                self._answer_ring(visit)
            case b"HOME", [address] if visit.ring:
                visit.home = address
                self._say(visit.writer, "200 GO")
            case b"NOTE", _ if visit.ring:
                await self._answer_note(visit, line)
                visit.ring = ""
            case b"FIND" | b"ASK", [word]:
                await self._answer_question(visit, command, word)
            case _:
                self._say(visit.writer, "500 what?")

    def _turn(self) -> str:
        return self._script.popleft() if len(self._script) > 1 else self._script[0]

    def _answer_ring(self, visit: _Visit) -> None:
        if visit.reaction == "close":
            raise _Gone
        refused = visit.reaction.isdigit()
        self._say(visit.writer, f"{visit.reaction} not {visit.ring}" if refused else "200 GO")

    async def _answer_note(self, visit: _Visit, line: bytes) -> None:
        if visit.reaction.startswith("note-"):
            self._say(visit.writer, f"{visit.reaction.removeprefix('note-')} no")
            return
        note = Note(
            connection=visit.connection,
            ring=visit.ring,
            tag=visit.tag,
            home=visit.home,
            line=line,
            reference=f"P{len(self.taken) + 1:04d}",
        )
        self.taken.append(note)
        self.settle(note, "flying")
        await self._answer(visit, visit.reaction, f"201 {note.reference}")

    async def _answer_question(self, visit: _Visit, command: bytes, word: str) -> None:
        if command == b"FIND":
            tagged = [note.reference for note in self.taken if note.tag == word]
            answer = f"203 {' '.join(each for each in tagged if each in self.words)}"
        else:
            known = self.words.get(word)
            answer = f"520 no {word}" if known is None else f"202 {word} {known}"
        last = self._script[-1]
        await self._answer(visit, last if last in UNANSWERED else "", answer)

    async def _answer(self, visit: _Visit, reaction: str, answer: str) -> None:
        match reaction:
            case "lose":
                raise _Gone
            case "stall":
                await visit.reader.read()  # until whoever waits for an answer leaves
                raise _Gone
            case "garble":
                self._write(visit.writer, GARBAGE)
            case _:
                self._say(visit.writer, answer)

    def _say(self, writer: asyncio.StreamWriter, reply: str) -> None:
        self._write(writer, reply.encode() + b"\n")

    def _write(self, writer: asyncio.StreamWriter, octets: bytes) -> None:
        self.said += octets
        writer.write(octets)


async def post(posted: Post) -> int:
    """Post over HTTP/1.1 and return the status of the answer."""
    where = urlsplit(posted.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    headers = {"Host": where.netloc, "Content-Length": str(len(posted.body)), "Connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in (headers | posted.headers).items())
    writer.write(f"POST {where.path} HTTP/1.1\r\n{lines}\r\n".encode() + posted.body)
    try:
        return int((await reader.read()).split(b" ")[1])
    finally:
        writer.close()
