"""The channel: ring numbers, notes, and what the loft said."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from sendledger.plugin import (
    Addressee,
    Asked,
    CallbackRequest,
    Capabilities,
    Classification,
    Content,
    ContentFault,
    Destination,
    DestinationRefused,
    Envelope,
    Evidence,
    Found,
    Outcome,
    Receipt,
    Receipts,
    Scope,
    Session,
    SessionRefused,
    Suppress,
    Template,
    Writer,
    hookimpl,
)
from sendledger_carrierpigeon.callback import read_callback
from sendledger_carrierpigeon.look_up import look_up
from sendledger_carrierpigeon.settings import PigeonSettings
from sendledger_carrierpigeon.wire import Reply, Wire, WireBroken
from sendledger_carrierpigeon.words import LOOK_UP, RECEIPT
from sendledger_carrierpigeon.words import MEANINGS as TOLD

NOTE_MAX_BYTES = 500
READY, NO_SUCH_RING, UNCARRIED, UNKNOWN_TO_THE_LOFT = 100, 510, 511, 530
_RING = re.compile(r"[0-9]{4,15}")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

MEANINGS = {
    NO_SUCH_RING: Classification(
        rule="pigeon.no-such-ring", outcome=Outcome.PERMANENT, suppress=Suppress.DESTINATION
    ),
    UNCARRIED: Classification(
        rule="pigeon.uncarried", outcome=Outcome.PERMANENT, scope=Scope.MESSAGE
    ),
    UNKNOWN_TO_THE_LOFT: Classification(
        rule="pigeon.unknown-to-the-loft", outcome=Outcome.PERMANENT, scope=Scope.SENDER
    ),
}
"""The replies that say more than their first digit, which Sendledger's default reads."""


class NoteWriter:
    """Writes the one line that a pigeon carries."""

    def __init__(self, text: Template) -> None:
        self._text = text

    def write(self, addressee: Addressee) -> bytes:
        """Return the NOTE command. Raises ``ContentFault``, which repeats nothing of the note."""
        text = self._text.render(addressee.variables)
        if _CONTROLS.search(text):
            raise ContentFault("pigeon.one-line", "a note is one line without control characters")
        try:
            note = text.encode()
        except UnicodeEncodeError:
            raise ContentFault("pigeon.not-unicode", "the note holds half a character") from None
        if len(note) > NOTE_MAX_BYTES:
            raise ContentFault("pigeon.too-heavy", f"a note has at most {NOTE_MAX_BYTES} octets")
        return b"NOTE %b\n" % note


class PigeonChannel:
    """One loft. A session is a connection, made for it and closed after it."""

    capabilities = Capabilities(
        parts={"text": False},
        required_parts=frozenset({"text"}),
        receipts=Receipts.DELIVERED,
        look_up=True,
        handoff_max=timedelta(minutes=5),
        window=timedelta(days=1),
    )

    def __init__(self, settings: PigeonSettings) -> None:
        self._settings = settings
        self._pigeons = asyncio.Semaphore(settings.pigeons_max)

    @hookimpl
    def sendledger_destination(self, text: str) -> Destination:
        """Return the bare digits of a ring number."""
        digits = re.sub("[ -]", "", text)
        if not digits.isascii() or not _RING.fullmatch(digits):
            raise DestinationRefused("pigeon.ring", "write the 4 to 15 digits of a ring")
        return Destination(address=digits, canonical=digits)

    @hookimpl
    def sendledger_prepare(self, content: Content) -> Writer:
        """Return the writer of notes."""
        return NoteWriter(content.parts["text"])

    @hookimpl
    @asynccontextmanager
    async def sendledger_session(self) -> AsyncIterator[Session]:
        """Lend a connection whose loft is ready."""
        async with self._pigeons:
            wire = await self.arrive()
            try:
                yield wire
            finally:
                await wire.close()

    async def arrive(self) -> Wire:
        """Connect and hear that the loft is ready. Raises ``SessionRefused``."""
        settings = self._settings
        try:
            wire = await Wire.open(settings.host, settings.port, settings.patience)
        except WireBroken as broken:
            raise SessionRefused(_broken("connect", broken)) from None
        try:
            await _hear_ready(wire)
        except BaseException:
            await wire.close()
            raise
        return wire

    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        """Name the ring and where to report, then hand the note over."""
        assert isinstance(session, Wire), "a session of another channel"
        for stage, command in _commands(envelope):
            evidence = await ask(session, stage, command)
            if evidence.reply_code is None or evidence.reply_code // 100 != 2:
                return evidence
        return await ask(session, "note", envelope.message)

    @hookimpl
    def sendledger_classify(self, channel: str, evidence: Evidence) -> Classification | None:
        """Say what a refusal is about; the rest is in its first digit."""
        del channel
        if evidence.stage in (RECEIPT, LOOK_UP):
            return TOLD.get(evidence.facts.get("word", ""))
        if not evidence.answered or evidence.reply_code is None:
            return None
        if evidence.stage == "greeting":
            return None  # before a ring is named nothing is about one, which the default knows
        if evidence.reply_code // 100 == 4:
            return Classification(
                rule="pigeon.not-now",
                outcome=Outcome.TRANSIENT,
                retry_floor=self._settings.again_after,
            )
        return MEANINGS.get(evidence.reply_code)

    @hookimpl
    def sendledger_read_callback(self, request: CallbackRequest) -> Sequence[Receipt]:
        """Verify and read what the loft posts. Raises ``CallbackRefused``."""
        return [read_callback(request, self._settings)]

    @hookimpl
    async def sendledger_look_up(self, attempts: Sequence[Asked]) -> Sequence[Found]:
        """Ask the loft about *attempts*, on a connection of their own."""
        try:
            wire = await self.arrive()
        except SessionRefused as refused:
            return [Found(failed=refused.evidence.fault or "refused")] * len(attempts)
        try:
            return await look_up(wire, attempts)
        finally:
            await wire.close()

    def sender_of(self, content_settings: Mapping[str, str]) -> str:
        """Name the loft: it has one sender."""
        del content_settings
        return self._settings.loft


def _commands(envelope: Envelope) -> Iterator[tuple[str, bytes]]:
    """Yield what is said before the note, each with its stage."""
    ring, tag = envelope.destination.encode("ascii"), envelope.token.encode("ascii")
    yield "ring", b"RING %b %b\n" % (ring, tag)
    if envelope.callback_url is not None:
        yield "home", b"HOME %b\n" % envelope.callback_url.encode("ascii")


async def ask(wire: Wire, stage: str, command: bytes) -> Evidence:
    """Write one command and return what was read. The note is the handoff, from its writing on."""
    try:
        wire.write(command)
    except WireBroken as broken:
        return _broken(stage, broken)
    handed_over = stage == "note"
    try:
        reply = await wire.read_reply()
    except WireBroken as broken:
        return _broken(stage, broken, handed_over=handed_over)
    return _answered(stage, reply, handed_over=handed_over)


async def _hear_ready(wire: Wire) -> None:
    try:
        reply = await wire.read_reply()
    except WireBroken as broken:
        raise SessionRefused(_broken("greeting", broken)) from None
    if reply.code != READY:
        raise SessionRefused(_answered("greeting", reply, handed_over=False))


def _answered(stage: str, reply: Reply, *, handed_over: bool) -> Evidence:
    accepted = handed_over and reply.positive
    return Evidence(
        stage=stage,
        handed_over=handed_over,
        answered=True,
        literal=reply.literal,
        reply_code=reply.code,
        provider_reference=reply.text.split(" ")[0] or None if accepted else None,
    )


def _broken(stage: str, broken: WireBroken, *, handed_over: bool = False) -> Evidence:
    return Evidence(
        stage=stage,
        fault=broken.fault,
        handed_over=handed_over,
        answered=False,
        literal=broken.literal,
    )
