"""Hand one message over: one POST, never repeated, and evidence for every way it can end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from aiohttp.connector import Connection

from sendledger.plugin import Envelope, Evidence, SessionRefused
from sendledger_twilio.account import Account
from sendledger_twilio.answer import REQUEST, evidence_of, not_begun, unanswered
from sendledger_twilio.client import Unanswered, Unreached
from sendledger_twilio.senders import choose_sender
from sendledger_twilio.settings import TwilioSettings

VALIDITY_MIN = timedelta(seconds=1)


class TwilioSession:
    """A lent connection, held until a submission takes it, so that nothing is opened on a dead line."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def let_go(self) -> None:
        """Put the connection back, for the very next request."""
        self._connection.release()


class Sessions:
    """At most ``sessions_max`` sessions at once."""

    def __init__(self, account: Account, sessions_max: int) -> None:
        self._account = account
        self._room = asyncio.Semaphore(sessions_max)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[TwilioSession]:
        """Lend a session whose connection stands. Entering raises ``SessionRefused``."""
        async with self._room:
            try:
                session = TwilioSession(await self._account.connect())
            except Unreached as error:
                raise SessionRefused(not_begun(error.stage, error.fault)) from None
            try:
                yield session
            finally:
                session.let_go()


async def submit(
    account: Account, session: TwilioSession, fields: dict[str, object], *, now: datetime
) -> Evidence:
    """Create a message of *fields* and return what was read. Never raises for what the peer does."""
    session.let_go()
    try:
        answer = await account.create(fields)
    except Unreached as error:
        return not_begun(error.stage, error.fault)
    except Unanswered as error:
        return unanswered(error.fault)
    return evidence_of(answer.status, answer.octets, answer.retry_after, now=now)


def fields_of(
    envelope: Envelope, settings: TwilioSettings, *, now: datetime
) -> dict[str, object] | None:
    """Return the form of one message; None when it could not leave Twilio in time any more.

    Past its validity Twilio gives a message up: nothing arrives after the envelope's last instant.
    """
    validity = settings.validity_max
    if envelope.not_after is not None:
        validity = min(validity, envelope.not_after - now)
    if validity < VALIDITY_MIN:
        return None
    fields: dict[str, object] = {
        "To": envelope.destination,
        "Body": envelope.message.decode(),
        "ValidityPeriod": str(int(validity.total_seconds())),
        "SmartEncoded": "false",
    }
    if settings.messaging_service_sid is not None:
        fields["MessagingServiceSid"] = settings.messaging_service_sid
    else:
        fields["From"] = choose_sender(settings.senders, envelope.destination)
    if envelope.callback_url is not None:
        fields["StatusCallback"] = envelope.callback_url + INSIST
    return fields


INSIST = "#rc=5&rp=ct,rt,5xx"
"""Asks for callbacks to be posted again, also when we answer that our database is away.

By default only a connection that fails is tried once more (Twilio, "webhooks connection overrides"). The
fragment is neither sent back to us nor signed.
"""

TOO_LATE = not_begun(REQUEST, "too-late")
"""The evidence of a message that could not leave in time."""
