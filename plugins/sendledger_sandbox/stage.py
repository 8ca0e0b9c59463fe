"""The boundaries of a session: where its observer is told and its script is played."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import assert_never

from sendledger_sandbox.relay import ConnectionInfo, Relay
from sendledger_sandbox.script import Drop, Outcome, Phase, Refuse, Stall
from sendledger_sandbox.wire import Wire

Scripted = tuple[str, Outcome]
"""A recipient's address and an outcome that it asked for."""

CLOSING_CODE = 421


class SessionOver(Exception):  # noqa: N818 - the end of a session is no error
    """The last reply is queued; write it and close."""


class SessionDropped(Exception):  # noqa: N818 - the end of a session is no error
    """The script closes the connection here, without an answer."""


class Stage:
    """Plays what is scripted, for the whole server first, then for the recipients in their order."""

    def __init__(self, relay: Relay, wire: Wire) -> None:
        self._relay, self._wire = relay, wire

    async def reach(self, phase: Phase, info: ConnectionInfo, scripted: Sequence[Scripted]) -> bool:
        """Tell the observer and play the script; False when that has refused the peer.

        Raises :class:`SessionOver` and :class:`SessionDropped` where the script ends the session.
        """
        if self._relay.observer is not None:
            await self._wire.flush()
            await self._relay.tell(phase, info)
        everywhere = [("", outcome) for outcome in self._relay.outcomes]
        for address, outcome in (*everywhere, *scripted):
            due = outcome.phase == phase and self._relay.turns.take(address, outcome)
            if due and not await self._play(outcome):
                return False
        return True

    async def _play(self, outcome: Outcome) -> bool:
        match outcome:
            case Stall():
                await self._wire.flush()
                await asyncio.sleep(outcome.seconds)
                return True
            case Drop():
                await self._wire.flush()
                raise SessionDropped
            case Refuse():
                self._refuse(outcome)
                return False
            case _:
                assert_never(outcome)

    def _refuse(self, outcome: Refuse) -> None:
        enhanced = f" {outcome.enhanced}" if outcome.enhanced else ""
        self._wire.reply(f"{outcome.code}{enhanced} {outcome.text}")
        if outcome.code == CLOSING_CODE:
            raise SessionOver
