"""Open a session: connect, TLS, EHLO, AUTH. All that can go wrong here is the channel's fault."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

import aiosmtplib

from sendledger.plugin import Evidence, SessionRefused
from sendledger_smtp.reply import Malformed, take_reply
from sendledger_smtp.settings import Relay, SmtpSettings, Timeouts, Tls
from sendledger_smtp.wire import Wire

_REFUSALS = 4  # the first digit from which on a reply is a refusal
_AddressInfo = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]


async def open_wire(
    relay: Relay, settings: SmtpSettings, tls_context: ssl.SSLContext | None
) -> tuple[Wire, Mapping[str, str]]:
    """Return a ready connection to *relay* and the extensions its EHLO named, in lower case.

    Raises :class:`SessionRefused` with the stage and the literal reply, where there was one.
    """
    timeouts = settings.timeouts
    client = aiosmtplib.SMTP(
        hostname=relay.host,
        sock=await _dial(relay, timeouts.connect),
        local_hostname=settings.greeting_name,
        use_tls=relay.tls is Tls.IMPLICIT,
        start_tls=False,
        tls_context=tls_context,
        # The waits are bounded here: wait_for, which the library would use, can swallow a cancellation
        # on Python 3.11.
        timeout=None,
    )
    async with _cut_on_failure(client):
        await _greet(client, timeouts)
        await _say_hello(client, timeouts)
        if relay.tls is Tls.STARTTLS:
            await _start_tls(client, timeouts)
            # RFC 3207 section 4.2: what was said in clear counts for nothing.
            await _say_hello(client, timeouts)
        await _log_in(client, relay, timeouts)
        return _take_over(client), dict(client.esmtp_extensions)


async def _dial(relay: Relay, patience: timedelta) -> socket.socket:
    fault = "refused"
    for family, kind, protocol, _, address in await _look_up(relay, patience):
        try:
            async with asyncio.timeout(patience.total_seconds()):
                return await _connect(socket.socket(family, kind, protocol), address)
        except TimeoutError:
            fault = "timeout"
        except OSError:
            fault = "refused"
    raise _refused("connect", fault)


async def _look_up(relay: Relay, patience: timedelta) -> Sequence[_AddressInfo]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(patience.total_seconds()):
            return await loop.getaddrinfo(relay.host, relay.dial_port, type=socket.SOCK_STREAM)
    except (TimeoutError, socket.gaierror):
        raise _refused("connect", "dns") from None


async def _connect(sock: socket.socket, address: Any) -> socket.socket:
    sock.settimeout(0)
    try:
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


@asynccontextmanager
async def _cut_on_failure(client: aiosmtplib.SMTP) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        # The socket belongs to the transport by now; closing it here would pull a live descriptor from
        # under the loop. And no goodbye: a TLS one may take half a minute.
        transport = client.transport
        client.close()
        if transport is not None:
            cast("asyncio.Transport", transport).abort()
        raise


async def _greet(client: aiosmtplib.SMTP, timeouts: Timeouts) -> None:
    async with _failing_as("greeting", timeouts.greeting):
        try:
            await client.connect()
        except aiosmtplib.SMTPConnectError as error:
            raise _greeting_refused(error) from None


def _greeting_refused(error: aiosmtplib.SMTPConnectError) -> Exception:
    # One exception stands for the TLS handshake and for the greeting; what caused it tells them apart.
    match error, error.__cause__:
        case aiosmtplib.SMTPConnectResponseError(), _:
            return error
        case _, aiosmtplib.SMTPServerDisconnected():
            return _refused("greeting", "closed")
        case _, ConnectionAbortedError():  # the loop's own limit to a handshake
            return _refused("tls", "timeout")
        case _:
            return _refused("tls", "tls")


async def _say_hello(client: aiosmtplib.SMTP, timeouts: Timeouts) -> None:
    async with _failing_as("ehlo", timeouts.command):
        await client.ehlo()


async def _start_tls(client: aiosmtplib.SMTP, timeouts: Timeouts) -> None:
    if not client.supports_extension("starttls"):
        raise _refused("tls", "starttls-missing")
    async with _failing_as("tls", timeouts.command):
        await client.starttls()


async def _log_in(client: aiosmtplib.SMTP, relay: Relay, timeouts: Timeouts) -> None:
    if relay.username is None or relay.password is None:
        return
    # One mechanism, once: trying the next after a 535 multiplies failures at the relay's lock-out.
    offered = client.server_auth_methods
    by_name = {
        "plain": client.auth_plain,
        "login": client.auth_login,
        "cram-md5": client.auth_crammd5,
    }
    chosen = next((method for name, method in by_name.items() if name in offered), None)
    if chosen is None:
        raise _refused("auth", "auth-missing")
    async with _failing_as("auth", timeouts.command):
        await chosen(relay.username, relay.password.reveal())


def _take_over(client: aiosmtplib.SMTP) -> Wire:
    protocol, transport = client.protocol, client.transport
    if protocol is None or transport is None or transport.is_closing():
        raise _refused("ehlo", "closed")
    if protocol._buffer:  # noqa: SLF001 - unasked bytes belong to nobody; the pinned version has no name for them
        raise _refused("ehlo", "protocol")
    wire = Wire()
    wire.take_over(cast("asyncio.Transport", transport))
    return wire


@asynccontextmanager
async def _failing_as(stage: str, patience: timedelta) -> AsyncIterator[None]:
    # Without the cause: these exceptions repeat what the server said, and it may say who we are.
    try:
        async with asyncio.timeout(patience.total_seconds()):
            yield
    except aiosmtplib.SMTPResponseException as error:
        raise SessionRefused(_answered(stage, error.code, error.message)) from None
    except TimeoutError:
        raise _refused(stage, "timeout") from None
    except ssl.SSLError:
        raise _refused("tls", "tls") from None
    except (aiosmtplib.SMTPException, OSError):
        raise _refused(stage, "closed") from None


def _answered(stage: str, code: int, message: str) -> Evidence:
    """Rebuild the reply as it must have been: aiosmtplib strips the code from each line and joins them."""
    *lines, last = message.encode("utf-8", "surrogateescape").split(b"\n")
    literal = b"".join(b"%d-%s\r\n" % (code, line) for line in lines) + b"%d %s\r\n" % (code, last)
    try:
        reply = take_reply(bytearray(literal))
    except Malformed:
        reply = None
    if reply is None or reply.digit < _REFUSALS:
        return Evidence(stage=stage, handed_over=False, answered=False, fault="protocol")
    return Evidence(
        stage=stage,
        handed_over=False,
        answered=True,
        literal=reply.literal,
        reply_code=reply.code,
        enhanced_code=reply.enhanced,
    )


def _refused(stage: str, fault: str) -> SessionRefused:
    return SessionRefused(Evidence(stage=stage, handed_over=False, answered=False, fault=fault))
