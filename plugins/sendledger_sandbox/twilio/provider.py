"""How a stand-in behaves, what it counts, and who is told: what all its parts share."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import assert_never

from sendledger_sandbox.relay import Connections
from sendledger_sandbox.script import Turns
from sendledger_sandbox.twilio.message import Message
from sendledger_sandbox.twilio.numbers import outcomes_of
from sendledger_sandbox.twilio.outcomes import (
    Drop,
    Garble,
    Outcome,
    Phase,
    Refuse,
    Staged,
    Stall,
    parse_script,
    staged_in,
)
from sendledger_sandbox.twilio.replies import Reply, error

ACCOUNT_SID = f"AC{1:032x}"
AUTH_TOKEN = "0123456789abcdef0123456789abcdef"  # noqa: S105 - of an account that does not exist
SENDER = "+15005550006"


class Dropped(Exception):  # noqa: N818 - the end of a connection is no error
    """The script closes the connection here, without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What a boundary is about, as far as it is known there; *connection* counts from 1.

    *status* is the one that a callback tells, *answer* what it was answered with.
    """

    connection: int | None = None
    to: str | None = None
    sid: str | None = None
    token: str | None = None
    status: str | None = None
    answer: int | None = None


Observer = Callable[[Phase, int, Where], Awaitable[None] | None]
"""Told of every boundary; the server goes on there when it (or its awaitable) returns. The number says
how often the phase was reached on this server, this time included."""


@dataclass(kw_only=True, eq=False)
class Provider:
    """The behaviour of a stand-in and its counts; what has no underscore may be changed while it runs.

    *api_keys* maps their identifiers to their secrets, beside the account's own token. *script* holds
    outcomes for everybody and *numbers* those of single destinations, in place of what the table of
    :mod:`~sendledger_sandbox.twilio.numbers` says. *senders* are the account's own numbers, None for any;
    *service_sender* is the one that every messaging service chooses. *opted_out* destinations are refused.
    A message changes its status every *step_s*. More than *concurrency_max* requests at a time are told 429.
    """

    account_sid: str = ACCOUNT_SID
    auth_token: str = field(default=AUTH_TOKEN, repr=False)
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    script: InitVar[Sequence[str]] = ()
    numbers: InitVar[Mapping[str, str] | None] = None
    senders: Collection[str] | None = None
    service_sender: str = SENDER
    opted_out: set[str] = field(default_factory=set, repr=False)
    step_s: float = 0.05
    concurrency_max: int | None = None
    callback_timeout_s: float = 15.0
    observer: Observer | None = None

    connections: Connections = field(default_factory=Connections, init=False)
    accepted: int = field(default=0, init=False)
    look_ups: int = field(default=0, init=False)
    busy: int = field(default=0, init=False)
    everywhere: tuple[Outcome, ...] = field(default=(), init=False, repr=False)
    _own: dict[str, tuple[Outcome, ...]] = field(default_factory=dict, init=False, repr=False)
    _turns: Turns = field(default_factory=Turns, init=False, repr=False)
    _reached: Counter[Phase] = field(default_factory=Counter, init=False, repr=False)

    def __post_init__(self, script: Sequence[str], numbers: Mapping[str, str] | None) -> None:
        self.play(*script)
        for number, asked in (numbers or {}).items():
            self.play_for(number, asked)

    def play(self, *script: str) -> None:
        """Play these outcomes for everybody from now on, instead of those before; turns start anew.

        Raises :class:`~sendledger_sandbox.ScriptFault`, and then nothing has changed.
        """
        parsed = [parse_script(text, connect=True) for text in script]
        self.everywhere = tuple(outcome for found in parsed for outcome in found)
        self._turns = Turns()

    def play_for(self, number: str, script: str) -> None:
        """Play this for one destination from now on; an empty script delivers to it.

        Raises :class:`~sendledger_sandbox.ScriptFault`, and then nothing has changed.
        """
        self._own[number] = parse_script(script)

    def asked_by(self, number: str | None) -> tuple[Outcome, ...]:
        """Return what a destination asks for."""
        if number is None:
            return ()
        own = self._own.get(number)
        return outcomes_of(number) if own is None else own

    async def reach(self, phase: Phase, where: Where) -> Reply | None:
        """Tell the observer and play the script; a reply where that has answered the request.

        Raises :class:`Dropped` where the script ends the connection.
        """
        await self.tell(phase, where)
        for who, outcomes in (("", self.everywhere), (where.to or "", self.asked_by(where.to))):
            for outcome in staged_in(outcomes):
                due = outcome.phase is phase and self._turns.take(who, outcome)
                if due and (reply := await _play(outcome, where)) is not None:
                    return reply
        return None

    async def tell(self, phase: Phase, where: Where) -> None:
        """Tell the observer, and wait until it lets the server go on."""
        self._reached[phase] += 1
        if self.observer is None:
            return
        answer = self.observer(phase, self._reached[phase], where)
        if inspect.isawaitable(answer):
            await answer


async def _play(outcome: Staged, where: Where) -> Reply | None:
    match outcome:
        case Refuse():
            about = {"to": where.to or "", "sid": where.sid or ""}
            code, wait_s = outcome.code, outcome.retry_after_s
            return error(code, status=outcome.status, retry_after_s=wait_s, about=about)
        case Garble():
            return Reply(status=201, body=b'{"account_sid": "AC')
        case Drop():
            raise Dropped
        case Stall():
            if math.isinf(outcome.seconds):
                await asyncio.Event().wait()
            await asyncio.sleep(outcome.seconds)
            return None
        case _:
            assert_never(outcome)


def where_of(message: Message, *, connection: int | None = None) -> Where:
    """Return what is known at a boundary about an accepted message."""
    request = message.request
    return Where(connection=connection, to=request.to, sid=message.sid, token=request.token)
