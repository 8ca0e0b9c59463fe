"""The SMTP channel against the capture server, with a line between them that can be garbled."""

from __future__ import annotations

import asyncio
import email
import email.policy
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from sendledger.plugin import Attachment
from sendledger.plugin.conformance import ChannelRig, Reaction, Taken
from sendledger_sandbox import CaptureServer, ConnectionInfo, Phase, read_journal
from smtp_kit import PHASES

GARBAGE = b"\x00\xff\xfe one moment please\r\n"
PLAYED: Mapping[Reaction, tuple[str, ...]] = {
    Reaction.ACCEPT: (),
    Reaction.REFUSE_FOR_NOW: ("rcpt-450-4.2.1",),
    Reaction.REFUSE_ADDRESS: ("rcpt-550-5.1.1",),
    Reaction.REFUSE_MESSAGE: ("dot-554-5.6.0",),
    Reaction.REFUSE_SENDER: ("mail-550-5.7.1",),
    Reaction.REFUSE_SESSION: ("greeting-421-4.3.2",),
    Reaction.CLOSE_EARLY: ("drop-data",),
    Reaction.LOSE_ANSWER: ("lose-answer",),
    Reaction.GARBLE_ANSWER: (),
    Reaction.STALL: ("stall-9999",),
}


class Line:
    """A relay of bytes in front of the server: keeps what it said, and can say garbage in its place."""

    def __init__(self, server: CaptureServer) -> None:
        self._server = server
        self._listener: asyncio.Server | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self.said = bytearray()
        self.garbled = False
        self.port = 0

    @property
    def calls(self) -> int:
        """How many connections are open."""
        return len(self._calls)

    async def open(self) -> None:
        """Listen, again on the same port."""
        self._listener = await asyncio.start_server(self._meet, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Cut every call."""
        assert self._listener is not None
        self._listener.close()
        calls = tuple(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await self._listener.wait_closed()

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call = asyncio.create_task(self._carry(reader, writer))
        self._calls.add(call)
        call.add_done_callback(lambda done: self._part(done, writer))

    def _part(self, call: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        self._calls.discard(call)
        writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        ways = [
            asyncio.create_task(self._copy(reader, far_writer, heard=False)),
            asyncio.create_task(self._copy(far_reader, writer, heard=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            far_writer.transport.abort()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _copy(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, heard: bool
    ) -> None:
        with suppress(OSError):
            while octets := await source.read(65_536):
                said = GARBAGE if heard and self.garbled else octets
                if heard:
                    self.said += said
                sink.write(said)
                await sink.drain()


class SmtpPeer:
    """A capture server at the end of a line."""

    def __init__(self, server: CaptureServer) -> None:
        self._server = server
        self.line = Line(server)
        self._reaction = Reaction.ACCEPT
        self._took: list[int] = []
        server.observer = self._observe

    def _observe(self, phase: Phase, _times: int, info: ConnectionInfo) -> None:
        if phase is Phase.ACCEPTED:
            self._took.append(info.number)
            self.line.garbled = self._reaction is Reaction.GARBLE_ANSWER

    @property
    def taken(self) -> Sequence[Taken]:
        """The messages in the journal, with the connection each came on."""
        assert self._server.keep is not None
        kept = self._server.keep
        return [
            Taken(
                connection=number,
                destinations=entry.rcpt,
                message=(kept / f"{entry.n:06d}.eml").read_bytes(),
                reference=f"{entry.n:06d}",
            )
            for number, entry in zip(self._took, read_journal(self._server.journal), strict=True)
        ]

    @property
    def said(self) -> bytes:
        """What came down the line."""
        return bytes(self.line.said)

    @property
    def connections(self) -> int:
        """The calls on the line; a server that stalls does not see when one ends."""
        return self.line.calls

    def play(self, reaction: Reaction) -> None:
        """Script the server, or the line."""
        self._reaction = reaction
        self.line.garbled = False
        self._server.play(*PLAYED[reaction])

    async def leave(self) -> None:
        """Take line and server down."""
        await self.line.close()
        await self._server.close()

    async def come_back(self) -> None:
        """Bring both back."""
        await self._server.reopen()
        await self.line.open()


class SmtpRig(ChannelRig):
    """The bundled channel."""

    plugin = "smtp"
    good = ("pat@home.test", "kim.lee@HOME.test", "jörg@büro.test")
    bad = (
        "nobody",
        "two@at@home.test",
        "Pat <pat@home.test>",
        '"pat"@home.test',
        "pat@[192.0.2.1]",
        "pat@home.test, kim@home.test",
        "pat@-home.test",
    )
    sessions_max = 2

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def peer(self) -> AsyncIterator[SmtpPeer]:
        """Lend a capture server with a journal of its own."""
        folder = self._folder
        server = CaptureServer(journal=folder / "accepted.jsonl", keep=folder / "kept", fsync=False)
        async with server:
            peer = SmtpPeer(server)
            await peer.line.open()
            try:
                yield peer
            finally:
                await peer.line.close()
        assert server.unexpected == []

    def settings(self, peer: SmtpPeer, *, answer_within: timedelta) -> Mapping[str, Any]:
        """Point the channel at the line."""
        return {
            "host": "127.0.0.1",
            "port": str(peer.line.port),
            "tls": "none",
            "sender": "reports@school.example",
            "sessions_max": str(self.sessions_max),
            "timeouts": dict.fromkeys(PHASES, answer_within),
        }

    def structure(self, message: bytes) -> object:
        """Return the names of all headers and the kinds of all parts, as a mail reader finds them."""
        read = email.message_from_bytes(message, policy=email.policy.default)
        return [(part.get_content_type(), sorted(part.keys())) for part in read.walk()]

    def timeless(self, message: bytes) -> bytes:
        """Leave the Date out."""
        return re.sub(rb"\ADate: [^\r]*\r\n", b"", message)

    def enclosed(self, message: bytes) -> Sequence[Attachment]:
        """Return the attachments that a mail reader finds."""
        read = email.message_from_bytes(message, policy=email.policy.default)
        return [
            Attachment(
                name=part.get_filename() or "",
                media_type=part.get_content_type(),
                content=cast(bytes, part.get_payload(decode=True)),
            )
            for part in read.iter_attachments()
        ]
