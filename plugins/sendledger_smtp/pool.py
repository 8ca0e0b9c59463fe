"""Sessions kept open between submissions: few, fresh, and never trusted because they were good once."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta

from sendledger.plugin import Evidence, SessionRefused
from sendledger_smtp.ramp import Ramp
from sendledger_smtp.routes import Opened, Routes, strained
from sendledger_smtp.settings import SmtpSettings
from sendledger_smtp.wire import Wire, WireBroken

GOODBYE_MAX = timedelta(seconds=2)
"""How long closing waits for anybody: nothing after an acceptance can undo it, so nothing is lost."""


class SmtpSession:
    """A lent connection. ``in_step`` is False while, or since, its transaction went no known way."""

    def __init__(self, opened: Opened) -> None:
        self.wire, self.extensions, self.route = opened.wire, opened.extensions, opened.route
        self.in_step = True
        self.needs_reset = False
        self.reused = False
        self.cuts = 0
        self.submissions = 0
        self.idle_since = 0.0
        self.expiry: asyncio.TimerHandle | None = None

    @property
    def reusable(self) -> bool:
        """Whether another submission may be tried on it."""
        return self.in_step and self.wire.quiet


class Pool:
    """At most ``sessions_max`` sessions, lent one submission at a time, the freshest first.

    How many at once is found out by use: :class:`Ramp`. Where to is decided by :class:`Routes`.
    """

    def __init__(
        self,
        settings: SmtpSettings,
        tls_contexts: Sequence[ssl.SSLContext | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._routes = Routes(settings, tls_contexts, clock)
        self._ramp = Ramp(settings.sessions_max)
        self._lent = 0
        self._idle: list[SmtpSession] = []
        self._leaving: set[Wire] = set()
        self._closed = False

    def lend(self) -> AbstractAsyncContextManager[SmtpSession]:
        """Lend a ready session. Entering raises :class:`SessionRefused`; leaving never raises."""
        return _Loan(self)

    async def take(self) -> SmtpSession:
        """Take a session that is given back. Raises :class:`SessionRefused`."""
        await self._ramp.enter()
        try:
            session = await self._ready()
        except BaseException:
            self._ramp.leave()
            raise
        self._lent += 1
        return session

    def give_back(self, session: SmtpSession) -> None:
        """Take back what :meth:`take` gave: to keep it, or to close it."""
        self._lent -= 1
        try:
            self._take_back(session)
        finally:
            self._ramp.leave()

    async def renew(self, session: SmtpSession) -> None:
        """Put a new connection to the same relay under a lent *session* whose old one had died unseen.

        Raises :class:`SessionRefused`; the session is then of no use.
        """
        session.in_step = False
        self._drop(session.wire)
        self._stop_when_closed()
        try:
            fresh = await session.route.open()
        except SessionRefused as refused:
            self._ramp.faulted(session.cuts)
            raise SessionRefused(self._routes.named(refused.evidence, session.route)) from None
        session.wire, session.extensions = fresh.wire, fresh.extensions
        session.in_step, session.needs_reset, session.reused = True, False, False
        session.submissions = 0

    def learn(self, session: SmtpSession, evidence: Evidence) -> Evidence:
        """Take the *evidence* of a submission into account; returns it with what it says beside its code."""
        evidence = self._routes.learn(evidence, session.route)
        if strained(evidence):
            self._ramp.faulted(session.cuts)
        else:
            self._ramp.succeeded()
        return evidence

    async def aclose(self) -> None:
        """Say goodbye on idle sessions and wait, briefly, until all that are leaving are gone."""
        self._closed = True
        while self._idle:
            self._retire(self._idle[-1])
        await self._all_gone()
        for wire in self._leaving:
            wire.abort()
        await self._all_gone()

    async def _all_gone(self) -> None:
        if leaving := [wire.gone for wire in self._leaving]:
            await asyncio.wait(leaving, timeout=GOODBYE_MAX.total_seconds())

    async def _ready(self) -> SmtpSession:
        cuts = self._ramp.cuts
        session = await self._fresh_or_kept()
        session.cuts = cuts
        return session

    async def _fresh_or_kept(self) -> SmtpSession:
        while self._idle:
            session = self._idle.pop()
            if await self._still_good(session):
                return session
        return await self._open()

    async def _still_good(self, session: SmtpSession) -> bool:
        # RFC 5321 section 3.8: a server that has left may have said so long ago, or never.
        if session.expiry is not None:
            session.expiry.cancel()
        kept = False
        try:
            kept = session.reusable and await self._revalidated(session)
        finally:
            if not kept:
                self._drop(session.wire)
        return kept

    async def _revalidated(self, session: SmtpSession) -> bool:
        idle_s = asyncio.get_running_loop().time() - session.idle_since
        if session.needs_reset or idle_s > self._settings.revalidate_after.total_seconds():
            try:
                reply = await session.wire.ask(b"RSET", self._settings.timeouts.connect)
            except WireBroken:
                return False
            if reply.digit != 2 or not session.wire.quiet:  # noqa: PLR2004 - 2yz
                return False
        session.needs_reset, session.reused = False, True
        return True

    async def _open(self) -> SmtpSession:
        self._stop_when_closed()
        cuts = self._ramp.cuts
        try:
            return SmtpSession(await self._routes.open())
        except SessionRefused as refused:
            self._ramp.faulted(cuts)
            if not self._lent:
                # Nobody holds a session that could be passed on: who waits would only ask the same.
                self._ramp.refuse(refused.evidence)
            raise

    def _stop_when_closed(self) -> None:
        if self._closed:
            fault = Evidence(stage="connect", handed_over=False, answered=False, fault="closed")
            raise SessionRefused(fault)

    def _take_back(self, session: SmtpSession) -> None:
        if not session.in_step:
            self._drop(session.wire)
        elif self._closed or session.submissions >= self._settings.messages_per_session_max:
            self._leave(session.wire)
        elif session.reusable:
            self._keep(session)
        else:
            self._drop(session.wire)

    def _keep(self, session: SmtpSession) -> None:
        loop = asyncio.get_running_loop()
        session.idle_since = loop.time()
        # Shorter than the relay's own patience, so that it is we who leave.
        session.expiry = loop.call_later(
            self._settings.idle_max.total_seconds(), self._retire, session
        )
        self._idle.append(session)

    def _retire(self, session: SmtpSession) -> None:
        if session.expiry is not None:
            session.expiry.cancel()
        with suppress(ValueError):
            self._idle.remove(session)
        self._leave(session.wire)

    def _leave(self, wire: Wire) -> None:
        wire.leave(GOODBYE_MAX)
        self._see_off(wire)

    def _drop(self, wire: Wire) -> None:
        wire.abort()
        self._see_off(wire)

    def _see_off(self, wire: Wire) -> None:
        self._leaving.add(wire)
        wire.gone.add_done_callback(lambda _: self._leaving.discard(wire))


class _Loan(AbstractAsyncContextManager[SmtpSession]):
    """A session while it is lent. A class, for it is on the hot path."""

    __slots__ = ("_pool", "_session")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __aenter__(self) -> SmtpSession:
        self._session = await self._pool.take()
        return self._session

    async def __aexit__(self, *_error: object) -> None:
        self._pool.give_back(self._session)
