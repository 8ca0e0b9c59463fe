"""One connection in our own hands: bytes out, literal replies in, and the exact way it broke."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from sendledger_smtp.reply import REPLY_MAX_BYTES, Malformed, Reply, take_reply

CLOSING = 421
"""RFC 5321 section 3.8: may come at any time, also unasked."""


class WireBroken(Exception):  # noqa: N818 - a state of the connection
    """No reply is to be had any more. ``fault`` is closed, timeout or protocol; ``literal`` what was read.

    Of a group it may also be ``unsynchronised``: replies came, and cannot be told whose they are.
    """

    def __init__(self, fault: str, literal: bytes = b"") -> None:
        super().__init__(fault)
        self.fault = fault
        self.literal = literal[:REPLY_MAX_BYTES]


class Wire(asyncio.Protocol):
    """Reads and writes a connected transport. After :class:`WireBroken` only ``abort`` is of use.

    One task at a time may read. Commands may be written in groups and their replies read in order;
    nothing else may be in the buffer when one is written, for a reply that came before its command
    would be taken for the answer to it. ``gone`` is done when the transport is.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._lost = False
        self._leaving = False
        self._loop = asyncio.get_running_loop()
        self._change: asyncio.Future[bool] | None = None
        self.gone: asyncio.Future[None] = self._loop.create_future()

    def take_over(self, transport: asyncio.Transport) -> None:
        """Become the protocol of a *transport* that another one has made ready."""
        self._transport = transport
        transport.set_protocol(self)
        # Tell us when everything is written, not when most of it is.
        transport.set_write_buffer_limits(high=0)

    @property
    def quiet(self) -> bool:
        """Whether the connection stands and has said nothing since the last reply."""
        return not self._lost and not self._buffer and not self._out.is_closing()

    @property
    def spoken(self) -> bytes:
        """What was read and belongs to no reply yet."""
        return bytes(self._buffer)

    async def ask(self, command: bytes, patience: timedelta) -> Reply:
        """Write one command line, without its CRLF, and read the reply. Raises :class:`WireBroken`.

        Of several lines with CRLF between them it is the first reply that is returned.
        """
        if (goodbye := self.unasked()) is not None:
            return goodbye
        self.write(command + b"\r\n")
        return await self.read_reply(patience)

    def unasked(self) -> Reply | None:
        """Return the goodbye that was said unasked, or None when nothing was said.

        Raises :class:`WireBroken` for anything else: it would be taken for the answer to what is said next.
        """
        if not self._buffer:
            return None
        reply = self._take()
        if reply is not None and reply.code == CLOSING:
            return reply
        raise WireBroken("protocol", reply.literal if reply else bytes(self._buffer))

    def write(self, octets: bytes) -> None:
        """Hand *octets* to the transport, whole. Raises :class:`WireBroken`, and then none were."""
        if self._buffer:
            raise WireBroken("protocol", bytes(self._buffer))
        if not self.quiet:
            raise WireBroken("closed")
        self._out.write(octets)

    async def read_reply(self, patience: timedelta) -> Reply:
        """Read the next reply. Raises :class:`WireBroken`."""
        until = self._loop.time() + patience.total_seconds()
        while (reply := self._take()) is None:
            if not await self._changed(until - self._loop.time()):
                raise WireBroken("timeout", bytes(self._buffer))
        return reply

    async def drain(self, patience: timedelta) -> None:
        """Wait until all is written or anything is read. Raises :class:`WireBroken` without progress.

        *patience* bounds the time in which nothing moves, not the whole (RFC 5321 section
        4.5.3.2.5): a large message over a slow line is not a broken one.
        """
        while (waiting := self._unwritten) and not self._buffer and not self._lost:
            moved = await self._changed(patience.total_seconds())
            if not moved and self._unwritten >= waiting:
                raise WireBroken("timeout")

    @property
    def drained(self) -> bool:
        """Whether every byte has left the transport, so that a reply can be the answer to the last."""
        return self._unwritten == 0

    def leave(self, patience: timedelta) -> None:
        """Say QUIT and close at the answer, or after *patience*; does not wait (RFC 5321 section 4.1.1.10)."""
        if not self.quiet:
            self.abort()
            return
        self._leaving = True
        self._out.write(b"QUIT\r\n")
        timer = self._loop.call_later(patience.total_seconds(), self.abort)
        self.gone.add_done_callback(lambda _: timer.cancel())

    def abort(self) -> None:
        """Drop the connection at once, with whatever is not yet written."""
        self._lost = True
        self._out.abort()

    def data_received(self, data: bytes) -> None:
        """Keep *data*; a reply is looked for when a line is complete."""
        if self._leaving:
            self._out.close()
            return
        self._buffer += data
        if len(self._buffer) > 2 * REPLY_MAX_BYTES:
            self.abort()
        if b"\n" in data or len(self._buffer) > REPLY_MAX_BYTES:
            self._wake()

    def eof_received(self) -> bool:
        """Treat half a connection as none."""
        self._lost = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Remember that the connection is gone; why is of no use to anybody."""
        del exc
        self._lost = True
        self._wake()
        if not self.gone.done():
            self.gone.set_result(None)

    def resume_writing(self) -> None:
        """Wake whoever waits for the last byte to leave."""
        self._wake()

    @property
    def _out(self) -> asyncio.Transport:
        assert self._transport is not None, "take_over comes first"
        return self._transport

    @property
    def _unwritten(self) -> int:
        return self._out.get_write_buffer_size()

    def _take(self) -> Reply | None:
        try:
            reply = take_reply(self._buffer)
        except Malformed:
            raise WireBroken("protocol", bytes(self._buffer)) from None
        if reply is None and self._lost:
            raise WireBroken("closed", bytes(self._buffer))
        return reply

    async def _changed(self, within_s: float) -> bool:
        """Wait for a change; False when there was none in time.

        A timer alone, where ``asyncio.timeout`` would do: here nothing has to be cancelled, and there are
        two waits in each message.
        """
        self._change = self._loop.create_future()
        timer = self._loop.call_later(within_s, self._give_up)
        try:
            return await self._change
        finally:
            timer.cancel()
            self._change = None

    def _wake(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(True)

    def _give_up(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(False)
