"""The SMS channel: what the hooks ask, put together from its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta

from sendledger.plugin import (
    Asked,
    CallbackRequest,
    Capabilities,
    Classification,
    Content,
    Destination,
    Envelope,
    Evidence,
    Found,
    Receipt,
    Receipts,
    Session,
    Writer,
    hookimpl,
)
from sendledger_twilio.account import Account
from sendledger_twilio.callback import read_callback
from sendledger_twilio.look_up import LookUps
from sendledger_twilio.message import PART, compile_content
from sendledger_twilio.numbers import read_destination
from sendledger_twilio.segments import measure
from sendledger_twilio.settings import TwilioSettings
from sendledger_twilio.submission import TOO_LATE, Sessions, TwilioSession, fields_of, submit

WINDOW = timedelta(days=3)
"""Ten hours in Twilio's queue, and as long as carriers keep trying a telephone that is off."""


def _now() -> datetime:
    return datetime.now(UTC)


class TwilioChannel:
    """One account. ``session``, ``submit`` and ``look_up`` touch the network; ``aclose`` ends it."""

    def __init__(self, settings: TwilioSettings, clock: Callable[[], datetime] = _now) -> None:
        self._settings = settings
        self._clock = clock
        self._account = Account(settings)
        self._sessions = Sessions(self._account, settings.sessions_max)
        self._look_ups = LookUps(self._account, settings)
        self.capabilities = Capabilities(
            parts={PART: False},
            required_parts=frozenset({PART}),
            receipts=Receipts.DELIVERED,
            look_up=True,
            units="segments",
            classification="twilio",
            handoff_max=max(timedelta(minutes=2), 2 * settings.timeouts.answer),
            window=WINDOW,
        )

    @hookimpl
    def sendledger_destination(self, text: str) -> Destination:
        """Return the number in E.164, or raise ``DestinationRefused``."""
        settings = self._settings
        return read_destination(
            text, countries=settings.countries, default_region=settings.default_region
        )

    @hookimpl
    def sendledger_prepare(self, content: Content) -> Writer:
        """Compile the text. Raises ``ContentFault``."""
        settings = self._settings
        return compile_content(
            content, segments_max=settings.segments_max, smart_encoding=settings.smart_encoding
        )

    @hookimpl
    def sendledger_session(self) -> AbstractAsyncContextManager[Session]:
        """Lend a connection that stands; entering raises ``SessionRefused``, leaving never raises."""
        return self._sessions.lend()

    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        """Create one message and return what was read."""
        assert isinstance(session, TwilioSession), "a session of another channel"
        now = self._clock()
        fields = fields_of(envelope, self._settings, now=now)
        if fields is None:
            return TOO_LATE
        return await submit(self._account, session, fields, now=now)

    @hookimpl
    def sendledger_classify(self, channel: str, evidence: Evidence) -> Classification | None:
        """Leave it to the rule table."""
        del channel, evidence
        return None

    @hookimpl
    def sendledger_read_callback(self, request: CallbackRequest) -> Sequence[Receipt]:
        """Verify and read a status callback. Raises ``CallbackRefused``."""
        return [read_callback(request, self._settings)]

    @hookimpl
    async def sendledger_look_up(self, attempts: Sequence[Asked]) -> Sequence[Found]:
        """Ask Twilio about *attempts*, a few at a time."""
        return await self._look_ups.look_up(attempts)

    def sender_of(self, content_settings: Mapping[str, str]) -> str:
        """Name the messaging service, or the account with all its numbers; content cannot change it."""
        del content_settings
        return self._settings.sender_identity

    def units_of(self, message: bytes) -> int:
        """Count the segments of a body."""
        return measure(message.decode()).segments

    async def aclose(self) -> None:
        """Close every connection."""
        await self._account.aclose()
