"""How the conformance kit builds a pigeon channel and plays its loft."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from sendledger.plugin import Secret
from sendledger.plugin.conformance import Callback, ChannelRig, Fate, Flaw, Reaction, Taken
from sendledger_carrierpigeon.loft import Loft, Note

PLAYED = {
    Reaction.ACCEPT: "accept",
    Reaction.REFUSE_FOR_NOW: "451",
    Reaction.REFUSE_ADDRESS: "510",
    Reaction.REFUSE_MESSAGE: "note-511",
    Reaction.REFUSE_SENDER: "530",
    Reaction.REFUSE_SESSION: "door-421",
    Reaction.CLOSE_EARLY: "close",
    Reaction.LOSE_ANSWER: "lose",
    Reaction.GARBLE_ANSWER: "garble",
    Reaction.STALL: "stall",
}

WORDS = {
    Fate.UNDER_WAY: "flying",
    Fate.ARRIVED: "home",
    Fate.LOST: "hawk",
    Fate.UNMAPPED: "moulting",
}


class LoftPeer:
    """A loft, in the kit's words."""

    def __init__(self, loft: Loft) -> None:
        self.loft = loft

    @property
    def taken(self) -> Sequence[Taken]:
        """The notes that arrived."""
        return [
            Taken(
                connection=note.connection,
                destinations=(note.ring,),
                message=note.line,
                reference=note.reference,
            )
            for note in self.loft.taken
        ]

    @property
    def said(self) -> bytes:
        """Everything the loft answered."""
        return bytes(self.loft.said)

    @property
    def connections(self) -> int:
        """How many are connected."""
        return self.loft.connections

    def note_of(self, taken: Taken) -> Note:
        """Return the note that was taken."""
        [note] = [each for each in self.loft.taken if each.reference == taken.reference]
        return note

    def play(self, reaction: Reaction) -> None:
        """React so from now on."""
        self.loft.play(PLAYED[reaction])

    async def leave(self) -> None:
        """Close the loft."""
        await self.loft.close()

    async def come_back(self) -> None:
        """Open it again."""
        await self.loft.open()


class PigeonRig(ChannelRig):
    """The channel of this package, against its own loft."""

    plugin = "carrierpigeon"
    good = ("555-0100", "555 0101", "5550102")
    bad = ("nobody", "123", "1234567890123456", "+5550100", "५५५०१००")
    sessions_max = 2

    @asynccontextmanager
    async def peer(self) -> AsyncIterator[LoftPeer]:
        """Lend an open loft."""
        async with Loft() as loft:
            yield LoftPeer(loft)

    def settings(self, peer: LoftPeer, *, answer_within: timedelta) -> Mapping[str, Any]:
        """Point the channel at the loft."""
        return {
            "host": peer.loft.host,
            "port": str(peer.loft.port),
            "secret": Secret(peer.loft.secret),
            "patience": answer_within,
            "pigeons_max": str(self.sessions_max),
        }

    def structure(self, message: bytes) -> object:
        """Return the command, and how many lines there are."""
        return message.split(b" ")[0], message.count(b"\n")

    def callback(
        self, peer: LoftPeer, taken: Taken, fate: Fate, flaw: Flaw | None = None
    ) -> Callback:
        """Post what the loft would."""
        note, word = peer.note_of(taken), WORDS[fate]
        match flaw:
            case Flaw.ANOTHER_KEY:
                posted = peer.loft.post_of(note, word, secret="what hawks know")
            case Flaw.ANOTHER_ACCOUNT:
                posted = peer.loft.post_of(note, word, loft="next door")
            case Flaw.BROKEN_FORM:
                posted = peer.loft.post_of(note, "")
            case _:
                posted = peer.loft.post_of(note, word)
        signed = {} if flaw is Flaw.UNSIGNED else posted.headers
        return Callback(url=posted.url, headers=signed, body=posted.body)

    def settle(self, peer: LoftPeer, taken: Taken, fate: Fate) -> None:
        """Let the loft answer so."""
        peer.loft.settle(peer.note_of(taken), WORDS[fate])

    def forget(self, peer: LoftPeer, taken: Taken) -> None:
        """Let the loft forget the note."""
        peer.loft.forget(peer.note_of(taken))
