"""A scripted SMTP peer: plays a transcript of the case corpus against whatever connects to it.

    async with ScriptedPeer.from_file(INPUTS / "smtp/drop_after_final_dot.yaml") as peer:
        ...  # point a client at peer.host, peer.port
    assert peer.failures == []

A file has ``server`` (the steps of the only connection) or ``sessions`` (one list for each connection, in
order). A connection beyond them is answered 421. The steps, one key each:

    send TEXT, send_hex HEX   write it
    expect PREFIX             read a line that begins so, in any letter case; EHLO also takes HELO
    expect_data true          read a message with its final dot into ``messages``
    read_bytes N              read exactly so much
    read_write true           read what comes in one piece
    serve_until_quit {forbid: [PREFIX, ...]}   answer 250 to everything but these, until QUIT
    stall_s N                 wait
    after_idle true           wait ``idle_s``, then go on as a server does that found its client idle
    start_tls NOTE            go on under TLS, with the context given
    close true, reset true    end the connection with FIN, with RST

With ``pipelining`` each EHLO is answered with that offer too. Where it is offered, what a client sent in one
group with a command that was refused is answered 503 where the script expects something else.

Clients clean up in different ways: a RSET or NOOP that is not expected is answered 250, and QUIT or the end of
the connection may come in the place of RSET or QUIT.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import struct
import subprocess
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

READ_DEADLINE_S = 20.0
_LIMIT_BYTES = 4 * 1024 * 1024

Script = Sequence[Mapping[str, Any]]


class ScriptMismatch(AssertionError):  # noqa: N818 - what the client did, not an error of ours
    """The client did what the script does not expect."""


class _Ended(Exception):  # noqa: N818 - the end of a session is no error
    """The session ends here, as it may."""


@dataclass(eq=False)
class ScriptedPeer:
    """Listens on a free loopback port and plays one script for each connection, in order.

    ``log`` holds for each connection what was said, as ("C" or "S", bytes); ``messages`` what came before each
    final dot, still dot-stuffed; ``failures`` the number of a connection (from 0) and what went against its
    script. ``idled`` is set once a connection was ended behind ``after_idle``.
    """

    scripts: Sequence[Script]
    tls_context: ssl.SSLContext | None = None
    idle_s: float = 0.2
    pipelining: bool = False

    host: str = field(default="127.0.0.1", init=False)
    port: int = field(default=0, init=False)
    connections: int = field(default=0, init=False)
    log: list[list[tuple[str, bytes]]] = field(default_factory=list, init=False)
    messages: list[bytes] = field(default_factory=list, init=False)
    failures: list[tuple[int, str]] = field(default_factory=list, init=False)
    idled: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _listener: asyncio.Server | None = field(default=None, init=False)
    _playing: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        tls_context: ssl.SSLContext | None = None,
        idle_s: float = 0.2,
        pipelining: bool = False,
    ) -> Self:
        """Read the scripts of a case file."""
        case = yaml.safe_load(path.read_text(encoding="utf-8"))
        scripts = case["sessions"] if "sessions" in case else [case["server"]]
        return cls(scripts=scripts, tls_context=tls_context, idle_s=idle_s, pipelining=pipelining)

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._meet, self.host, 0, limit=_LIMIT_BYTES)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_exception: object) -> None:
        assert self._listener is not None
        self._listener.close()
        playing = tuple(self._playing)
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        await self._listener.wait_closed()

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, self.connections = self.connections, self.connections + 1
        self.log.append([])
        task = asyncio.create_task(self._play(number, reader, writer))
        self._playing.add(task)
        task.add_done_callback(self._playing.discard)
        # One that was cancelled before its first step never came to close its connection.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _play(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        line = _Line(self, self.log[number], reader, writer)
        try:
            if number < len(self.scripts):
                await line.play(self.scripts[number])
            else:
                await line.send(b"421 4.3.2 no further scripted session\r\n")
        except _Ended:
            pass
        except (ScriptMismatch, asyncio.IncompleteReadError, TimeoutError, OSError) as mismatch:
            self.failures.append((number, repr(mismatch)))
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@dataclass(eq=False)
class _Line:
    """One connection while its script is played."""

    peer: ScriptedPeer
    log: list[tuple[str, bytes]]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    waited: bool = False
    greeted: bool = False
    pipelined: bool = False

    async def play(self, script: Script) -> None:
        for step in script:
            ((name, argument),) = step.items()
            await self._step(name, argument)

    async def _step(self, name: str, argument: Any) -> None:
        match name:
            case "send":
                await self.send(self._offered(argument.encode()))
            case "send_hex":
                await self.send(bytes.fromhex(argument))
            case "expect":
                await self._expect(argument.upper().encode())
            case "expect_data":
                await self._expect_data()
            case "read_bytes":
                await self._heard(self.reader.readexactly(argument))
            case "read_write":
                await self._heard(self.reader.read(_LIMIT_BYTES))
            case "serve_until_quit":
                await self._serve_until_quit(
                    [prefix.upper().encode() for prefix in argument["forbid"]]
                )
            case "stall_s":
                await asyncio.sleep(argument)
            case "after_idle":
                await asyncio.sleep(self.peer.idle_s)
                self.waited = True
            case "start_tls":
                await self._start_tls()
            case "close" | "reset":
                self._end(reset=name == "reset")
            case _:
                raise ScriptMismatch(f"{name} is no step of the script language")

    async def send(self, raw: bytes) -> None:
        self.log.append(("S", raw))
        self.writer.write(raw)
        await self.writer.drain()

    def _offered(self, reply: bytes) -> bytes:
        if self.greeted and self.peer.pipelining and reply.startswith(b"250"):
            # The first line of the answer names the server.
            reply = b"250-relay.example\r\n250-PIPELINING\r\n" + reply
        self.pipelined |= self.greeted and b"PIPELINING" in reply
        self.greeted = False
        return reply

    async def _heard(self, reading: Coroutine[Any, Any, bytes]) -> bytes:
        raw = await asyncio.wait_for(reading, READ_DEADLINE_S)
        self.log.append(("C", raw))
        return raw

    async def _expect(self, wanted: bytes) -> None:
        while not _meets(wanted, line := await self._heard(self.reader.readline())):
            if line.upper().startswith((b"RSET", b"NOOP")):
                await self.send(b"250 2.0.0 Ok\r\n")
                continue
            if self.pipelined and line.upper().startswith((b"RCPT", b"DATA")):
                await self.send(b"503 5.5.1 out of order\r\n")
                continue
            if wanted in {b"RSET", b"QUIT"} and line.upper().startswith(b"QUIT"):
                await self._say_goodbye()
            if wanted in {b"RSET", b"QUIT"} and not line:
                raise _Ended
            raise ScriptMismatch(f"expected {wanted!r}, got {line!r}")
        self.greeted = wanted == b"EHLO"

    async def _serve_until_quit(self, forbidden: Sequence[bytes]) -> None:
        while line := await self._heard(self.reader.readline()):
            if line.upper().startswith(tuple(forbidden)):
                raise ScriptMismatch(f"forbidden command {line!r}")
            if line.upper().startswith(b"QUIT"):
                await self._say_goodbye()
            await self.send(b"250 2.0.0 Ok\r\n")
        raise _Ended

    async def _say_goodbye(self) -> None:
        await self.send(b"221 2.0.0 Bye\r\n")
        raise _Ended

    async def _expect_data(self) -> None:
        message = b""
        while not (b"\r\n" + message).endswith(b"\r\n.\r\n"):
            line = await asyncio.wait_for(self.reader.readuntil(b"\n"), READ_DEADLINE_S)
            message += line
        self.log.append(("C", message))
        self.peer.messages.append(message.removesuffix(b".\r\n"))

    async def _start_tls(self) -> None:
        if self.peer.tls_context is None:
            raise ScriptMismatch("this script needs a tls_context")
        await self.writer.start_tls(self.peer.tls_context)

    def _end(self, *, reset: bool) -> None:
        if reset:
            # A zero linger time turns the close into RST.
            connection = self.writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        self.writer.close()
        if self.waited:
            self.peer.idled.set()
        raise _Ended


def _meets(wanted: bytes, line: bytes) -> bool:
    return line.upper().startswith((wanted, b"HELO") if wanted == b"EHLO" else wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsContexts:
    """Two ends of a private TLS: the server's self-signed certificate is the only one the client trusts."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    certificate: Path


def make_tls(folder: Path) -> TlsContexts:
    """Make a certificate for localhost and 127.0.0.1 in *folder*; without ``openssl`` the test is skipped."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is missing: apt-get install openssl")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
    ]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", str(key)]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=str(certificate))
    return TlsContexts(server=server, client=client, certificate=certificate)
