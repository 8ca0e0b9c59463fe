"""Liars of a later hour: pigeon channels that each break one promise about receipts, look-ups or files."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import logging
import os
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import quote

from conformance.liars import ENDLESS, NoteBy, lie
from sendledger.plugin import (
    Addressee,
    Asked,
    Attachment,
    CallbackRefused,
    CallbackRequest,
    Classification,
    ContentFault,
    Envelope,
    Evidence,
    Found,
    Outcome,
    Receipt,
    Session,
    Suppress,
    Template,
    hookimpl,
)
from sendledger_carrierpigeon import PigeonChannel, PigeonSettings
from sendledger_carrierpigeon.wire import Wire
from sendledger_carrierpigeon.words import LOOK_UP, RECEIPT, told

HOME, FLYING = "home", "flying"

# --- receipts: what is read ----------------------------------------------------------------------


class Retold(PigeonChannel):
    """Gives the true receipts, altered."""

    def retell(self, receipt: Receipt) -> list[Receipt]:
        raise NotImplementedError

    @hookimpl
    def sendledger_read_callback(self, request: CallbackRequest) -> Sequence[Receipt]:
        [receipt] = super().sendledger_read_callback(request)
        return self.retell(receipt)


def changed(receipt: Receipt, **changes: Any) -> list[Receipt]:
    evidence = dataclasses.replace(receipt.evidence, **changes)
    return [dataclasses.replace(receipt, evidence=evidence)]


@lie("receipts come to a shorter address")
class Shortener(PigeonChannel):
    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        url = envelope.callback_url and envelope.callback_url.replace("/callbacks", "")
        return await super().sendledger_submit(
            session, dataclasses.replace(envelope, callback_url=url)
        )


@lie("nothing goes where nobody listens")
class Listener(PigeonChannel):
    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        if envelope.callback_url is None:
            return Evidence(stage="home", fault="refused", handed_over=False, answered=False)
        return await super().sendledger_submit(session, envelope)


@lie("the receipt is tidied up")
class TidyReader(Retold):
    def retell(self, receipt: Receipt) -> list[Receipt]:
        return changed(
            receipt, literal=json.dumps(json.loads(receipt.evidence.literal)).encode()[1:] + b"}"
        )


@lie("a receipt is the answer to a submission")
class Confuser(Retold):
    def retell(self, receipt: Receipt) -> list[Receipt]:
        return changed(receipt, stage="note")


@lie("a receipt has a reference of its own")
class Renamer(Retold):
    def retell(self, receipt: Receipt) -> list[Receipt]:
        return changed(receipt, provider_reference=receipt.identity)


@lie("a receipt is not sure of the handoff")
class Doubter(Retold):
    def retell(self, receipt: Receipt) -> list[Receipt]:
        return changed(receipt, answered=False, fault="protocol")


@lie("words that nobody knows are dropped")
class Dropper(Retold):
    def retell(self, receipt: Receipt) -> list[Receipt]:
        return [receipt] if self.sendledger_classify("", receipt.evidence) else []


class Meaner(PigeonChannel):
    """Takes every word that it is told of a note for one and the same thing."""

    found: Classification

    @hookimpl
    def sendledger_classify(self, channel: str, evidence: Evidence) -> Classification | None:
        if evidence.stage in (RECEIPT, LOOK_UP):
            return self.found
        return super().sendledger_classify(channel, evidence)


@lie("whatever is told is a failure")
class Pessimist(Meaner):
    found = Classification(rule="liar.pessimist", outcome=Outcome.PERMANENT)


@lie("whatever is told is an arrival")
class Optimist(Meaner):
    found = Classification(rule="liar.optimist", outcome=Outcome.DELIVERED)


@lie("whatever is told suppresses")
class Silencer(Meaner):
    found = Classification(
        rule="liar.silencer", outcome=Outcome.ACCEPTED, suppress=Suppress.DESTINATION
    )


@lie("every receipt is another event")
class Numberer(Retold):
    def __init__(self, settings: PigeonSettings) -> None:
        super().__init__(settings)
        self._numbers = itertools.count()

    def retell(self, receipt: Receipt) -> list[Receipt]:
        return [dataclasses.replace(receipt, identity=f"event-{next(self._numbers)}")]


@lie("every receipt is the same event")
class Lumper(Retold):
    def retell(self, receipt: Receipt) -> list[Receipt]:
        return [dataclasses.replace(receipt, identity=str(receipt.evidence.provider_reference))]


@lie("what is told late is not told")
class Impatient(Retold):
    arrived = False

    def retell(self, receipt: Receipt) -> list[Receipt]:
        late = self.arrived
        self.arrived |= receipt.evidence.facts["word"] == HOME
        return [] if late else [receipt]


@lie("only what this process handed over is known")
class Forgetter(Retold):
    def __init__(self, settings: PigeonSettings) -> None:
        super().__init__(settings)
        self._known: set[str | None] = set()

    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        evidence = await super().sendledger_submit(session, envelope)
        self._known.add(evidence.provider_reference)
        return evidence

    def retell(self, receipt: Receipt) -> list[Receipt]:
        if receipt.evidence.provider_reference not in self._known:
            raise CallbackRefused("unknown")
        return [receipt]


# --- receipts: what is refused -------------------------------------------------------------------


@lie("anybody is believed")
class Gullible(PigeonChannel):
    @hookimpl
    def sendledger_read_callback(self, request: CallbackRequest) -> Sequence[Receipt]:
        try:
            said = json.loads(request.body)
            return [told(RECEIPT, said["note"], said["word"], request.body)]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise CallbackRefused("malformed", status=400) from None


@lie("every refusal is about who sent it")
class Blamer(PigeonChannel):
    @hookimpl
    def sendledger_read_callback(self, request: CallbackRequest) -> Sequence[Receipt]:
        try:
            return super().sendledger_read_callback(request)
        except CallbackRefused as refused:
            raise CallbackRefused(refused.reason) from None


@lie("what surrounds a receipt is taken off")
class Stripper(PigeonChannel):
    @hookimpl
    def sendledger_read_callback(self, request: CallbackRequest) -> Sequence[Receipt]:
        bare = dataclasses.replace(request, body=request.body.strip())
        return super().sendledger_read_callback(bare)


@lie("it is read before it is verified")
class Hasty(PigeonChannel):
    @hookimpl
    def sendledger_read_callback(self, request: CallbackRequest) -> Sequence[Receipt]:
        json.loads(request.body)
        return super().sendledger_read_callback(request)


@lie("receipts are looked for on the disk")
class Clerk(PigeonChannel):
    @hookimpl
    def sendledger_read_callback(self, request: CallbackRequest) -> Sequence[Receipt]:
        os.listdir()  # noqa: PTH208 - it is the system that is asked
        return super().sendledger_read_callback(request)


@lie("the signature is taken off the request")
class Taker(PigeonChannel):
    @hookimpl
    def sendledger_read_callback(self, request: CallbackRequest) -> Sequence[Receipt]:
        receipts = super().sendledger_read_callback(request)
        cast(dict[str, str], request.headers).pop("loft-signature")
        return receipts


@lie("receipts are logged")
class Scribe(PigeonChannel):
    @hookimpl
    def sendledger_read_callback(self, request: CallbackRequest) -> Sequence[Receipt]:
        logging.getLogger("liars").info("about %s", request.token)
        return super().sendledger_read_callback(request)


@lie("the refusal says what was posted")
class Explainer(PigeonChannel):
    @hookimpl
    def sendledger_read_callback(self, request: CallbackRequest) -> Sequence[Receipt]:
        try:
            return super().sendledger_read_callback(request)
        except CallbackRefused as refused:
            raise refused from ValueError(request.body.decode())


# --- look-ups ------------------------------------------------------------------------------------


class Seeker(PigeonChannel):
    """Gives the true answers of a look-up, altered."""

    def alter(self, asked: Asked, found: Found) -> Found:
        raise NotImplementedError

    @hookimpl
    async def sendledger_look_up(self, attempts: Sequence[Asked]) -> Sequence[Found]:
        answers = await super().sendledger_look_up(attempts)
        return [self.alter(*each) for each in zip(attempts, answers, strict=True)]


def each_changed(found: Found, **changes: Any) -> Found:
    receipts = [changed(receipt, **changes)[0] for receipt in found.receipts]
    return dataclasses.replace(found, receipts=tuple(receipts))


@lie("what is found is tidied up")
class TidySeeker(Seeker):
    def alter(self, asked: Asked, found: Found) -> Found:
        del asked
        return each_changed(found, literal=b"found\n")


@lie("what is found is the answer to a submission")
class LateComer(Seeker):
    def alter(self, asked: Asked, found: Found) -> Found:
        del asked
        return each_changed(found, stage="note")


@lie("only what is known is found")
class Knower(Seeker):
    def alter(self, asked: Asked, found: Found) -> Found:
        return Found() if asked.provider_reference is None else found


@lie("none, without a search")
class Referee(Seeker):
    """No liar: asks only by reference, and says where it cannot ask."""

    def alter(self, asked: Asked, found: Found) -> Found:
        return Found(failed="no-reference") if asked.provider_reference is None else found


@lie("the first note is everybody's")
class Presumer(PigeonChannel):
    @hookimpl
    async def sendledger_look_up(self, attempts: Sequence[Asked]) -> Sequence[Found]:
        first = [dataclasses.replace(each, provider_reference="P0001") for each in attempts]
        return await super().sendledger_look_up(first)


@lie("none is a failure")
class Failer(Seeker):
    def alter(self, asked: Asked, found: Found) -> Found:
        del asked
        return found if found.receipts else Found(failed="none")


@lie("of several the newest is the one")
class Chooser(Seeker):
    def alter(self, asked: Asked, found: Found) -> Found:
        del asked
        return dataclasses.replace(found, receipts=found.receipts[-1:])


@lie("answers come as they come")
class Shuffler(PigeonChannel):
    @hookimpl
    async def sendledger_look_up(self, attempts: Sequence[Asked]) -> Sequence[Found]:
        return list(await super().sendledger_look_up(attempts))[::-1]


@lie("every find is another event")
class Counter(Seeker):
    def __init__(self, settings: PigeonSettings) -> None:
        super().__init__(settings)
        self._numbers = itertools.count()

    def alter(self, asked: Asked, found: Found) -> Found:
        del asked
        named = [
            dataclasses.replace(receipt, identity=f"find-{next(self._numbers)}")
            for receipt in found.receipts
        ]
        return dataclasses.replace(found, receipts=tuple(named))


@lie("every find is the same event")
class Merger(Seeker):
    def alter(self, asked: Asked, found: Found) -> Found:
        del asked
        named = [dataclasses.replace(receipt, identity="found") for receipt in found.receipts]
        return dataclasses.replace(found, receipts=tuple(named))


@lie("who is away knows of none")
class Denier(Seeker):
    def alter(self, asked: Asked, found: Found) -> Found:
        del asked
        return Found() if found.failed else found


@lie("a look-up that fails is an exception")
class Bursting(Seeker):
    def alter(self, asked: Asked, found: Found) -> Found:
        del asked
        if found.failed:
            raise ConnectionError(found.failed)
        return found


@lie("who was away is not asked again")
class Bearer(Seeker):
    away: Found | None = None

    def alter(self, asked: Asked, found: Found) -> Found:
        del asked
        self.away = self.away or (found if found.failed else None)
        return self.away or found


@lie("a look-up waits for ever")
class Waiter(PigeonChannel):
    def __init__(self, settings: PigeonSettings) -> None:
        super().__init__(settings.model_copy(update={"patience": ENDLESS}))


@lie("a cancelled look-up found none")
class Shrugger(PigeonChannel):
    @hookimpl
    async def sendledger_look_up(self, attempts: Sequence[Asked]) -> Sequence[Found]:
        try:
            return await super().sendledger_look_up(attempts)
        except asyncio.CancelledError:
            return [Found()] * len(attempts)


@lie("look-ups keep their connection")
class Hanger(PigeonChannel):
    kept: Wire | None = None
    closed = 0

    @hookimpl
    async def sendledger_look_up(self, attempts: Sequence[Asked]) -> Sequence[Found]:
        self.kept = self.kept or await self.arrive()
        return await super().sendledger_look_up(attempts)

    async def aclose(self) -> None:
        self.closed += 1
        if self.kept and self.closed > 1:  # the bench closes once more, when all is over
            await self.kept.close()


@lie("look-ups are logged")
class Chronicler(PigeonChannel):
    @hookimpl
    async def sendledger_look_up(self, attempts: Sequence[Asked]) -> Sequence[Found]:
        for asked in attempts:
            logging.getLogger("liars").info("what of %s", asked.envelope.destination)
        return await super().sendledger_look_up(attempts)


@lie("what is found says for whom it is")
class Pointer(Seeker):
    def alter(self, asked: Asked, found: Found) -> Found:
        return each_changed(found, facts={"ring": asked.envelope.destination})


# --- attachments ---------------------------------------------------------------------------------


@lie("none, with files")
class Basket(NoteBy):
    """Takes files along: on the line, behind the text, each as name, type and content."""

    capabilities = dataclasses.replace(PigeonChannel.capabilities, attachments=True)

    def note(self, text: Template, addressee: Addressee) -> bytes:
        note = text.render(addressee.variables)
        if not note.isprintable():
            raise ContentFault("basket.one-line", "a note is one line of printable text")
        files = self.chosen(addressee.attachments)
        return b"\t".join([f"NOTE {note}".encode(), *map(self.packed, files)]) + b"\n"

    def chosen(self, files: Sequence[Attachment]) -> Sequence[Attachment]:
        return files

    def packed(self, file: Attachment) -> bytes:
        content = b64encode(file.content)
        return b"\t".join([self.named(file.name), file.media_type.encode(), content])

    def named(self, name: str) -> bytes:
        if not name.isprintable() or not name or {"/", "\\"} & set(name):
            raise ContentFault("basket.name", "a file has a plain name")
        return quote(name, safe="").encode()


@lie("files are sorted")
class Sorter(Basket):
    def chosen(self, files: Sequence[Attachment]) -> Sequence[Attachment]:
        return sorted(files, key=lambda file: len(file.content))


@lie("every message is packed in another way")
class Repacker(Basket):
    packings = 0

    def packed(self, file: Attachment) -> bytes:
        self.packings += 1
        return super().packed(file) + b"=" * self.packings  # which base64 does not mind


@lie("files are left behind on the way")
class Loser(Basket):
    @hookimpl
    async def sendledger_submit(self, session: Session, envelope: Envelope) -> Evidence:
        message = envelope.message.partition(b"\t")[0] + b"\n"
        return await super().sendledger_submit(
            session, dataclasses.replace(envelope, message=message)
        )


@lie("the last files are remembered")
class Rememberer(Basket):
    last: Sequence[Attachment] = ()

    def chosen(self, files: Sequence[Attachment]) -> Sequence[Attachment]:
        self.last = files or self.last
        return self.last


@lie("names are taken as they are")
class Trusting(Basket):
    def named(self, name: str) -> bytes:
        return name.encode()


@lie("names may be paths")
class Wanderer(Basket):
    def named(self, name: str) -> bytes:
        return quote(name, safe="", errors="replace").encode()


@lie("the refusal quotes the name")
class NameQuoter(Basket):
    def named(self, name: str) -> bytes:
        try:
            return super().named(name)
        except ContentFault:
            raise ContentFault("basket.name", f"cannot take {name} along") from None
