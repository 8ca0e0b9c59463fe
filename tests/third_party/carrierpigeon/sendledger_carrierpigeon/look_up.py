"""Asking the loft what became of notes: by their reference, or by the tag that each attempt has to itself."""

from __future__ import annotations

from collections.abc import Sequence

from sendledger.plugin import Asked, Found, Receipt
from sendledger_carrierpigeon.wire import Wire, WireBroken
from sendledger_carrierpigeon.words import LOOK_UP, REFERENCE, WORD, told

TOLD, FOUND, NO_SUCH_NOTE = 202, 203, 520


async def look_up(wire: Wire, attempts: Sequence[Asked]) -> list[Found]:
    """Return one answer for each of *attempts*, in their order; after a broken step there are no more."""
    answers: list[Found] = []
    for asked in attempts:
        try:
            answers.append(await _find(wire, asked))
        except WireBroken as broken:
            unknown = Found(failed=broken.fault)
            return answers + [unknown] * (len(attempts) - len(answers))
    return answers


async def _find(wire: Wire, asked: Asked) -> Found:
    known = asked.provider_reference
    references = [known] if known is not None else await _tagged(wire, asked.envelope.token)
    found = [await _ask(wire, reference) for reference in references]
    return Found(receipts=tuple(receipt for receipt in found if receipt is not None))


async def _tagged(wire: Wire, tag: str) -> list[str]:
    wire.write(b"FIND %b\n" % tag.encode("ascii"))
    reply = await wire.read_reply()
    references = reply.text.split()
    if reply.code != FOUND or not all(map(REFERENCE.fullmatch, references)):
        raise WireBroken("protocol")
    return references


async def _ask(wire: Wire, reference: str) -> Receipt | None:
    """Return what became of one note, None where the loft knows of none."""
    wire.write(b"ASK %b\n" % reference.encode("ascii"))
    reply = await wire.read_reply()
    if reply.code == NO_SUCH_NOTE:
        return None
    about, _, word = reply.text.partition(" ")
    if reply.code != TOLD or about != reference or not WORD.fullmatch(word):
        raise WireBroken("protocol")
    return told(LOOK_UP, reference, word, reply.literal)
