"""Channels that each break one promise: the pigeon channel with a lie in it, such as one writes in good faith.

The plugin ``liars`` builds the one that its setting ``lie`` names.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

from sendledger.plugin import (
    Addressee,
    Attachment,
    Classification,
    Content,
    ContentFault,
    Destination,
    DestinationRefused,
    Envelope,
    Evidence,
    Outcome,
    Receipts,
    Session,
    SessionRefused,
    Suppress,
    Template,
    Writer,
    hookimpl,
)
from sendledger_carrierpigeon import PigeonChannel, PigeonSettings
from sendledger_carrierpigeon.testing import LoftPeer, PigeonRig
from sendledger_carrierpigeon.wire import Wire


class LiarSettings(PigeonSettings):
    lie: str


settings_model = LiarSettings
LIARS: dict[str, type[PigeonChannel]] = {"none": PigeonChannel}
ENDLESS = timedelta(days=1)


@hookimpl
def sendledger_channel(settings: LiarSettings) -> PigeonChannel:
    return LIARS[settings.lie](settings)


class LiarRig(PigeonRig):
    plugin = "liars"

    def __init__(self, lie: str) -> None:
        self.lie = lie

    def settings(self, peer: LoftPeer, *, answer_within: timedelta) -> Mapping[str, Any]:
        return {**super().settings(peer, answer_within=answer_within), "lie": self.lie}

    def enclosed(self, message: bytes) -> Sequence[Attachment]:
        _note, *files = message.removesuffix(b"\n").split(b"\t")
        names, types, contents = files[::3], files[1::3], files[2::3]
        return [
            Attachment(
                name=unquote(name.decode()), media_type=kind.decode(), content=b64decode(content)
            )
            for name, kind, content in zip(names, types, contents, strict=True)
        ]


def lie(name: str) -> Callable[[type[PigeonChannel]], type[PigeonChannel]]:
    def tell(liar: type[PigeonChannel]) -> type[PigeonChannel]:
        LIARS[name] = liar
        return liar

    return tell


class Altered(PigeonChannel):
    """Gives the true evidence of a submission, altered."""

    def alter(self, evidence: Evidence) -> Evidence:
        raise NotImplementedError

    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        return self.alter(await super().sendledger_submit(session, envelope))


# --- promises ------------------------------------------------------------------------------------


@lie("a hook of the wrong colour")
class WrongColour(PigeonChannel):
    @hookimpl
    def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:  # type: ignore[override]
        raise NotImplementedError


class Blind(PigeonChannel):
    """Has no look-up."""

    sendledger_look_up = None  # type: ignore[assignment]


@lie("absence is proof without a look-up")
class Prover(Blind):
    capabilities = dataclasses.replace(
        PigeonChannel.capabilities, absence_is_proof=True, look_up=False
    )


@lie("a look-up that is not there")
class LookUp(Blind):
    pass


@lie("receipts that nobody declared")
class Receiver(PigeonChannel):
    capabilities = dataclasses.replace(PigeonChannel.capabilities, receipts=Receipts.NONE)


@lie("a sender without a name")
class Nameless(PigeonChannel):
    def sender_of(self, content_settings: Mapping[str, str]) -> str:
        return content_settings.get("from", " ")


# --- destinations --------------------------------------------------------------------------------


@lie("a prefix is added each time")
class Prefixer(PigeonChannel):
    @hookimpl
    def sendledger_destination(self, text: str) -> Destination:
        found = super().sendledger_destination(text)
        return found._replace(address=f"0{found.address}")


@lie("canonical says too little")
class Careless(PigeonChannel):
    @hookimpl
    def sendledger_destination(self, text: str) -> Destination:
        found = super().sendledger_destination(text)
        return found._replace(canonical=found.canonical[:4])


@lie("the refusal quotes the text")
class Quoter(PigeonChannel):
    @hookimpl
    def sendledger_destination(self, text: str) -> Destination:
        try:
            return super().sendledger_destination(text)
        except DestinationRefused:
            raise DestinationRefused("pigeon.ring", f"{text} is no ring") from None


@lie("anything is a destination")
class Taker(PigeonChannel):
    @hookimpl
    def sendledger_destination(self, text: str) -> Destination:
        return Destination(address=text[:15], canonical=text[:15])


@lie("the first digits decide")
class Glancer(PigeonChannel):
    @hookimpl
    def sendledger_destination(self, text: str) -> Destination:
        super().sendledger_destination(text.strip()[:8])
        return Destination(address=text, canonical=text)


# --- writing -------------------------------------------------------------------------------------


class NoteBy(PigeonChannel):
    """Writes notes in another way."""

    def note(self, text: Template, addressee: Addressee) -> bytes:
        raise NotImplementedError

    @hookimpl
    def sendledger_prepare(self, content: Content) -> Writer:
        return _Notes(self, content.parts["text"])


class _Notes:
    def __init__(self, channel: NoteBy, text: Template) -> None:
        self._channel, self._text = channel, text

    def write(self, addressee: Addressee) -> bytes:
        return self._channel.note(self._text, addressee)


@lie("chance is written in")
class Dice(NoteBy):
    def note(self, text: Template, addressee: Addressee) -> bytes:
        return b"NOTE %b %d\n" % (
            text.render(addressee.variables).encode(),
            random.getrandbits(64),
        )


@lie("the last addressee is remembered")
class Rememberer(NoteBy):
    last = ""

    def note(self, text: Template, addressee: Addressee) -> bytes:
        before, self.last = self.last, addressee.variables["name"]
        return f"NOTE {before}{text.render(addressee.variables)}\n".encode()


@lie("a line break gets into the note")
class Breaker(NoteBy):
    def note(self, text: Template, addressee: Addressee) -> bytes:
        return f"NOTE {text.render(addressee.variables)}\n".encode()


@lie("the fault quotes the value")
class QuotingWriter(NoteBy):
    def note(self, text: Template, addressee: Addressee) -> bytes:
        note = text.render(addressee.variables)
        if not note.isprintable():
            raise ContentFault("pigeon.one-line", f"cannot write {note}")
        return f"NOTE {note}\n".encode()


@lie("something is added on the way")
class Adder(PigeonChannel):
    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        message = envelope.message[:-1] + b" (by pigeon)\n"
        return await super().sendledger_submit(
            session, dataclasses.replace(envelope, message=message)
        )


# --- sessions ------------------------------------------------------------------------------------


class Keeper(PigeonChannel):
    """Keeps one connection, whatever becomes of it, until the process ends."""

    kept: Wire | None = None

    @hookimpl
    @asynccontextmanager
    async def sendledger_session(self) -> AsyncIterator[Session]:
        if self.kept is None:
            self.kept = await self.arrive()
        yield self.kept

    async def aclose(self) -> None:
        if self.kept is not None:
            await self.kept.close()


@lie("an unreachable peer is an exception")
class Thrower(PigeonChannel):
    async def arrive(self) -> Wire:
        try:
            return await super().arrive()
        except SessionRefused:
            raise OSError("no loft") from None


@lie("once refused is refused for good")
class Grudge(PigeonChannel):
    refused: SessionRefused | None = None

    async def arrive(self) -> Wire:
        if self.refused is None:
            try:
                return await super().arrive()
            except SessionRefused as refused:
                self.refused = refused
        raise SessionRefused(self.refused.evidence)


@lie("a dead connection is handed to")
class DeadKeeper(Keeper):
    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        evidence = await super().sendledger_submit(session, envelope)
        return dataclasses.replace(evidence, handed_over=True)


@lie("as many sessions as anybody asks for")
class Boundless(PigeonChannel):
    @hookimpl
    @asynccontextmanager
    async def sendledger_session(self) -> AsyncIterator[Session]:
        wire = await self.arrive()
        try:
            yield wire
        finally:
            await wire.close()


@lie("who gives up waiting keeps a place")
class Queuer(Boundless):
    def __init__(self, settings: PigeonSettings) -> None:
        super().__init__(settings)
        self._room = asyncio.Condition()
        self._asked = self._lent = 0
        self._max = settings.pigeons_max

    @hookimpl
    @asynccontextmanager
    async def sendledger_session(self) -> AsyncIterator[Session]:
        async with self._room:
            self._asked += 1
            mine = self._asked
            await self._room.wait_for(lambda: mine <= self._lent + self._max)
        async with super().sendledger_session() as wire:
            yield wire
        async with self._room:
            self._lent += 1
            self._room.notify_all()


@lie("a broken connection is kept")
class BrokenKeeper(Keeper):
    pass


@lie("connections are closed at the end")
class Hoarder(PigeonChannel):
    def __init__(self, settings: PigeonSettings) -> None:
        super().__init__(settings)
        self._hoard: list[Wire] = []

    @hookimpl
    @asynccontextmanager
    async def sendledger_session(self) -> AsyncIterator[Session]:
        self._hoard.append(await self.arrive())
        yield self._hoard[-1]

    async def aclose(self) -> None:
        for wire in self._hoard:
            await wire.close()


@lie("closing twice is an error")
class Once(PigeonChannel):
    closed = False

    async def aclose(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


@lie("a task outlives the channel")
class Busy(PigeonChannel):
    task: asyncio.Task[None] | None = None

    async def arrive(self) -> Wire:
        self.task = self.task or asyncio.create_task(asyncio.sleep(ENDLESS.total_seconds()))
        return await super().arrive()


# --- submission ----------------------------------------------------------------------------------


@lie("handed over from the first byte")
class Early(Altered):
    def alter(self, evidence: Evidence) -> Evidence:
        return dataclasses.replace(evidence, handed_over=True)


@lie("handed over when answered")
class Late(Altered):
    def alter(self, evidence: Evidence) -> Evidence:
        return dataclasses.replace(evidence, handed_over=evidence.answered)


@lie("what the peer does is an exception")
class Raiser(Altered):
    def alter(self, evidence: Evidence) -> Evidence:
        if evidence.fault:
            raise ConnectionError(evidence.fault)
        return evidence


@lie("garbage is an answer")
class Believer(Altered):
    def alter(self, evidence: Evidence) -> Evidence:
        return dataclasses.replace(evidence, answered=True, fault=None)


@lie("the literal is tidied up")
class Tidy(Altered):
    def alter(self, evidence: Evidence) -> Evidence:
        return dataclasses.replace(evidence, literal=evidence.literal.upper())


@lie("the reference is forgotten")
class Forgetful(Altered):
    def alter(self, evidence: Evidence) -> Evidence:
        return dataclasses.replace(evidence, provider_reference=None)


@lie("the first answer answers everything")
class Parrot(Altered):
    first: Evidence | None = None

    def alter(self, evidence: Evidence) -> Evidence:
        self.first = self.first or evidence
        return self.first


@lie("cancelling means not handed over")
class Swallower(PigeonChannel):
    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        try:
            return await super().sendledger_submit(session, envelope)
        except asyncio.CancelledError:
            return Evidence(stage="note", fault="timeout", handed_over=False, answered=False)


@lie("patience without end")
class Patient(PigeonChannel):
    def __init__(self, settings: PigeonSettings) -> None:
        super().__init__(settings.model_copy(update={"patience": ENDLESS}))


@lie("an exception is left to the loop")
class Leaver(Altered):
    def alter(self, evidence: Evidence) -> Evidence:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        return evidence


# --- meaning -------------------------------------------------------------------------------------


class Judge(PigeonChannel):
    """Takes every refusal for one and the same thing."""

    found: Classification

    @hookimpl
    def sendledger_classify(self, channel: str, evidence: Evidence) -> Classification | None:
        del channel
        return self.found if evidence.answered and evidence.reply_code != 201 else None


@lie("every refusal is for good")
class Final(Judge):
    found = Classification(rule="liar.final", outcome=Outcome.PERMANENT)


@lie("every refusal suppresses")
class Suppressor(Judge):
    found = Classification(
        rule="liar.suppressor", outcome=Outcome.PERMANENT, suppress=Suppress.DESTINATION
    )


@lie("every answer has a rule of its own")
class Counter(PigeonChannel):
    asked = 0

    @hookimpl
    def sendledger_classify(self, channel: str, evidence: Evidence) -> Classification | None:
        del channel, evidence
        self.asked += 1
        return Classification(rule=f"liar.{self.asked}", outcome=Outcome.TRANSIENT)


@lie("every reply is text")
class Decoder(PigeonChannel):
    @hookimpl
    def sendledger_classify(self, channel: str, evidence: Evidence) -> Classification | None:
        evidence.literal.decode("ascii")
        return super().sendledger_classify(channel, evidence)


# --- discretion ----------------------------------------------------------------------------------


@lie("the destination is logged")
class Logger(PigeonChannel):
    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        logging.getLogger("liars").debug("a pigeon for %s", envelope.destination)
        return await super().sendledger_submit(session, envelope)


@lie("the message is printed")
class Printer(PigeonChannel):
    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        print(envelope.message)
        return await super().sendledger_submit(session, envelope)


@lie("the destination is a fact")
class Gossip(PigeonChannel):
    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        evidence = await super().sendledger_submit(session, envelope)
        return dataclasses.replace(evidence, facts={"ring": envelope.destination})
