"""How the conformance kit builds a pigeon channel and plays its loft."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from sendledger.plugin.conformance import ChannelRig, Reaction, Taken
from sendledger_carrierpigeon.loft import Loft

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
            "patience": answer_within,
            "pigeons_max": str(self.sessions_max),
        }

    def structure(self, message: bytes) -> object:
        """Return the command, and how many lines there are."""
        return message.split(b" ")[0], message.count(b"\n")
