"""The SMTP channel: what the hooks ask, put together from its parts."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta

from sendledger.plugin import (
    Capabilities,
    Classification,
    Content,
    Destination,
    Envelope,
    Evidence,
    Receipts,
    Session,
    SessionRefused,
    Writer,
    hookimpl,
)
from sendledger_smtp.destination import read_destination
from sendledger_smtp.letterhead import letterhead_of
from sendledger_smtp.message import compile_content
from sendledger_smtp.pool import Pool, SmtpSession
from sendledger_smtp.settings import SmtpSettings
from sendledger_smtp.transaction import Transaction
from sendledger_smtp.wire import CLOSING

RETURN_PATH_PREFIX = "b+"
WINDOW = timedelta(days=5)
"""RFC 5321 section 4.5.4.1: relays give up after four to five days, and then say so."""


def _now() -> datetime:
    return datetime.now(UTC)


class SmtpChannel:
    """One sender, and the relays it hands over to.

    Only ``session`` and ``submit`` touch the network; ``aclose`` ends it.
    """

    def __init__(
        self,
        settings: SmtpSettings,
        tls_contexts: Sequence[ssl.SSLContext | None] | None = None,
        clock: Callable[[], datetime] = _now,
        *,
        name: str = "email",
    ) -> None:
        self._settings = settings
        self._letterhead = letterhead_of(settings, name)
        self._clock = clock
        self._pool = Pool(settings, tls_contexts or [None] * len(settings.relays))
        self.capabilities = Capabilities(
            parts={"subject": False, "text": False, "html": True},
            required_parts=frozenset({"subject"}),
            receipts=Receipts.NONE,
            classification="smtp",
            handoff_max=max(timedelta(minutes=30), 2 * settings.timeouts.handoff),
            window=WINDOW,
            attachments=True,
            unsubscribe=settings.unsubscribe_url is not None,
        )

    @hookimpl
    def sendledger_destination(self, text: str) -> Destination:
        """Return the address in the spelling of the wire, or raise ``DestinationRefused``."""
        return read_destination(text)

    @hookimpl
    def sendledger_prepare(self, content: Content) -> Writer:
        """Compile subject and bodies under this channel's letterhead. Raises ``ContentFault``."""
        return compile_content(content, self._letterhead, self._clock)

    @hookimpl
    def sendledger_session(self) -> AbstractAsyncContextManager[Session]:
        """Lend a session of the pool; entering raises ``SessionRefused``, leaving never raises."""
        return self._pool.lend()

    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        """Run one transaction for one recipient and return what was read."""
        assert isinstance(session, SmtpSession), "a session of another channel"
        evidence = await self._run(session, envelope)
        if session.reused and _left_unseen(evidence):
            try:
                await self._pool.renew(session)
            except SessionRefused as refused:
                return refused.evidence
            evidence = await self._run(session, envelope)
        return evidence

    @hookimpl
    def sendledger_classify(self, channel: str, evidence: Evidence) -> Classification | None:
        """Leave it to the rule table."""
        del channel, evidence
        return None

    def sender_of(self, content_settings: Mapping[str, str]) -> str:
        """Name the From address; content cannot change it."""
        del content_settings
        return self._settings.sender

    async def aclose(self) -> None:
        """Leave the relay: QUIT on idle sessions, bounded in time."""
        await self._pool.aclose()

    async def _run(self, session: SmtpSession, envelope: Envelope) -> Evidence:
        return_path = f"{RETURN_PATH_PREFIX}{envelope.token}@{self._settings.bounce_domain}"
        session.submissions += 1
        evidence = await Transaction(
            session, envelope, return_path, self._settings.timeouts, session.route.pipelining
        ).run()
        return self._pool.learn(session, evidence)


def _left_unseen(evidence: Evidence) -> bool:
    """Whether a kept connection turned out to be dead at MAIL (RFC 5321 section 3.8).

    Nothing of the transaction can have been taken, so another connection is the same attempt.
    """
    gone = evidence.reply_code == CLOSING or evidence.fault == "closed"
    return evidence.stage == "mail" and gone
