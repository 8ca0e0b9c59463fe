"""A client that says exactly what a test tells it, byte for byte, and shows what came back."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Self

DEADLINE_S = 10.0
_LAST_LINE = re.compile(rb"\d\d\d(?: .*)?\r\n")


class RawSmtp:
    """An open connection; an async context manager that has read the greeting and said EHLO unless told not to."""

    def __init__(
        self,
        port: int,
        *,
        ehlo: bool = True,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self._port, self._host, self._ehlo, self._tls = port, host, ehlo, tls
        self.greeting = b""

    async def __aenter__(self) -> Self:
        name = "localhost" if self._tls else None
        self._reader, self._writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._tls, server_hostname=name
        )
        self.greeting = await self.reply()
        if self._ehlo:
            await self.say("EHLO client.example.test")
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def write(self, raw: bytes) -> None:
        """Write *raw* and nothing else; that the server has gone shows in the reply."""
        self._writer.write(raw)
        with suppress(ConnectionError):
            await self._writer.drain()

    async def reply(self) -> bytes:
        """Read one whole reply; ``b""`` (or the part that came) when the server has closed."""
        lines = b""
        with suppress(ConnectionError):
            while line := await asyncio.wait_for(self._reader.readline(), DEADLINE_S):
                lines += line
                if _LAST_LINE.fullmatch(line):
                    break
        return lines

    async def say(self, command: str) -> bytes:
        """Send one command and return its reply."""
        await self.write(command.encode() + b"\r\n")
        return await self.reply()

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Shake hands."""
        await self._writer.start_tls(context, server_hostname="localhost")

    async def begin(self, rcpt: str, *, mail_from: str = "b@sender.example") -> list[bytes]:
        """Say MAIL, RCPT and DATA one by one until one is refused; return the replies."""
        replies: list[bytes] = []
        for command in (f"MAIL FROM:<{mail_from}>", f"RCPT TO:<{rcpt}>", "DATA"):
            replies.append(await self.say(command))
            if replies[-1][:1] not in {b"2", b"3"}:
                break
        return replies

    async def send(self, rcpt: str, message: bytes = b"Subject: t\r\n\r\nhello\r\n") -> bytes:
        """Send one message, already dot-stuffed, and return the last reply."""
        last = (await self.begin(rcpt))[-1]
        if not last.startswith(b"354"):
            return last
        await self.write(message + b".\r\n")
        return await self.reply()


async def wait_until(condition: Callable[[], bool]) -> None:
    """Return once *condition* holds; it must within the deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)
