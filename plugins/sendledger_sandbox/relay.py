"""What all sessions of one server share: how it behaves, what it counts, and who is told."""

from __future__ import annotations

import inspect
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import InitVar, dataclass, field

from sendledger_sandbox.script import Outcome, Phase, Turns, parse_outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionInfo:
    """Where a session stands at a boundary: ``number`` counts connections from 1, ``accepted`` its messages."""

    number: int
    tls: bool
    accepted: int
    mail_from: str | None
    rcpt: tuple[str, ...]


Observer = Callable[[Phase, int, ConnectionInfo], Awaitable[None] | None]
"""Told of every boundary before the server answers there; the server goes on when it (or its awaitable)
returns. The number says how often the phase was reached on this server, this time included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The one account that AUTH PLAIN and AUTH LOGIN accept."""

    user: str
    password: str = field(repr=False)


@dataclass(slots=True)
class Connections:
    """How many connections are open, were open at once, and were made."""

    open: int = 0
    peak: int = 0
    total: int = 0

    def opened(self) -> int:
        """Count one more and return its number, from 1."""
        self.open, self.total = self.open + 1, self.total + 1
        self.peak = max(self.peak, self.open)
        return self.total

    def closed(self) -> None:
        """Count one less."""
        self.open -= 1


@dataclass(kw_only=True, eq=False)
class Relay:
    """The behaviour of a server and its counts; *observer*, *greeting* and *refuse_new* may change while it runs.

    *script* holds outcomes for every session, as :meth:`play` takes them. *strict* off takes a bare LF for a
    line end, as relays do that let messages be smuggled. *greeting* replaces the 220: the bytes are sent
    as they are and the session ends unless they begin with ``220``. *refuse_new* answers 421 to every new
    connection. *tls* offers STARTTLS, or with *implicit_tls* speaks TLS from the first byte. With
    *credentials* a MAIL without AUTH is refused. *unexpected* says what peers did against the protocol.
    """

    script: InitVar[Sequence[str]] = ()
    strict: bool = True
    observer: Observer | None = None
    greeting: bytes | None = None
    refuse_new: bool = False
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    implicit_tls: bool = False
    credentials: Credentials | None = None
    hostname: str = "sandbox.example.test"
    size_max_bytes: int = 26_214_400
    idle_s: float = 300.0

    connections: Connections = field(default_factory=Connections, init=False)
    accepted: int = field(default=0, init=False)
    auth_tries: int = field(default=0, init=False)
    unexpected: list[str] = field(default_factory=list, init=False)
    turns: Turns = field(default_factory=Turns, init=False, repr=False)
    outcomes: tuple[Outcome, ...] = field(default=(), init=False, repr=False)
    _reached: Counter[Phase] = field(default_factory=Counter, init=False, repr=False)

    def __post_init__(self, script: Sequence[str]) -> None:
        if self.implicit_tls and self.tls is None:
            raise ValueError("implicit_tls needs a tls context")
        self.play(*script)

    def play(self, *script: str) -> None:
        """Play these outcomes in every session from now on, instead of those before; turns start anew.

        Raises :class:`~sendledger_sandbox.ScriptFault`, and then nothing has changed.
        """
        self.outcomes = tuple(map(parse_outcome, script))
        self.turns = Turns()

    async def tell(self, phase: Phase, info: ConnectionInfo) -> None:
        """Tell the observer, and wait until it lets the server go on."""
        self._reached[phase] += 1
        if self.observer is None:
            return
        answer = self.observer(phase, self._reached[phase], info)
        if inspect.isawaitable(answer):
            await answer
