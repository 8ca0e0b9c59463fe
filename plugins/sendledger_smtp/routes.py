"""Several relays for one channel: the first that is ready, and none that was just found away."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from sendledger.plugin import Evidence, SessionRefused
from sendledger_smtp.opening import open_wire
from sendledger_smtp.pipelining import Pipelining
from sendledger_smtp.settings import Grouping, Relay, SmtpSettings
from sendledger_smtp.waiting import stated_wait
from sendledger_smtp.wire import CLOSING, Wire

log = logging.getLogger(__name__)

REST, REST_MAX = timedelta(seconds=15), timedelta(minutes=5)
"""How long a relay that failed comes last; the time doubles until it serves again."""

BREAKS_MAX = 3
"""Submissions in a row that break before a relay that still opens sessions comes last."""

REFUSED, REFUSED_FOR_GOOD = 4, 5
"""First digits of a reply that refuses (RFC 5321 section 4.2.1)."""

_UNREADY = frozenset({"4.3.1", "4.3.2"})  # RFC 3463 section 3.4: full, or not accepting
_BROKEN = frozenset({"closed", "timeout", "protocol"})
_MISSING = frozenset({"starttls-missing", "auth-missing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A ready connection, what its EHLO offered, and where it leads."""

    wire: Wire
    extensions: Mapping[str, str]
    route: Route


class Route:
    """One relay, and what was learned of it.

    Until it has served, and after each failure, one caller alone tries it, and those who ask meanwhile
    share what comes of it: a dead relay is waited for once, a wrong password is shown once.
    """

    def __init__(
        self,
        relay: Relay,
        settings: SmtpSettings,
        tls_context: ssl.SSLContext | None,
        clock: Callable[[], float],
    ) -> None:
        self._relay, self._settings, self._tls_context = relay, settings, tls_context
        self._clock = clock
        self._one = asyncio.Lock()
        self._proven = False
        self._refusals = self._breaks = self._rests = 0
        self._refusal: Evidence | None = None
        self._rests_until = 0.0
        self.place = ""
        self.name = f"{relay.host}:{relay.dial_port}"
        self.pipelining = Pipelining(allowed=settings.pipelining is Grouping.AUTO)

    @property
    def resting(self) -> bool:
        """Whether others come first: it failed a moment ago, or is being tried again."""
        return self._clock() < self._rests_until or (self._rests > 0 and self._one.locked())

    async def open(self) -> Opened:
        """Open a connection. Raises :class:`SessionRefused`."""
        if not self._proven:
            known = self._refusals
            async with self._one:
                if self._refusal is not None and self._refusals != known:
                    raise SessionRefused(self._refusal)
                if not self._proven:
                    return await self._dial()
        return await self._dial()

    def learn(self, evidence: Evidence) -> None:
        """Take the *evidence* of a submission into account."""
        if strained(evidence):
            self._breaks += 1
            if self._breaks >= BREAKS_MAX or evidence.retry_after is not None:
                self._rest(evidence)
        elif evidence.answered:
            self._breaks = self._rests = 0

    async def _dial(self) -> Opened:
        try:
            wire, extensions = await open_wire(self._relay, self._settings, self._tls_context)
        except SessionRefused as refused:
            self._refusal = waiting(refused.evidence)
            self._refusals += 1
            self._rest(self._refusal)
            raise SessionRefused(self._refusal) from None
        self._proven = True
        return Opened(wire=wire, extensions=extensions, route=self)

    def _rest(self, evidence: Evidence) -> None:
        self._proven, self._breaks = False, 0
        if self._clock() < self._rests_until:
            return  # others were under way when it began
        wait = min(REST * 2**self._rests, REST_MAX)
        self._rests = min(self._rests + 1, 16)
        asked = min(evidence.retry_after or wait, REST_MAX)
        wait = max(wait, asked)
        self._rests_until = self._clock() + wait.total_seconds()
        if self.place:
            # Its place and not its name: a line of a log says nothing about a deployment.
            why = evidence.fault or evidence.reply_code
            told = f"{self.place} failed at {evidence.stage}, {why}: it comes last for {wait}"
            log.warning(told)


class Routes:
    """The relays of a channel, in the order of their preference."""

    def __init__(
        self,
        settings: SmtpSettings,
        tls_contexts: Sequence[ssl.SSLContext | None],
        clock: Callable[[], float],
    ) -> None:
        self._routes = tuple(
            Route(relay, settings, tls_context, clock)
            for relay, tls_context in zip(settings.relays, tls_contexts, strict=True)
        )
        if settings.fallbacks:
            for number, route in enumerate(self._routes, start=1):
                route.place = f"relay {number} of {len(self._routes)}"

    async def open(self) -> Opened:
        """Open a connection to the first relay that gives one; those at rest are asked last.

        Nothing was said of a message before, so none can be taken twice. Raises :class:`SessionRefused`
        when every relay refused.
        """
        refused: dict[Route, Evidence] = {}
        for route in sorted(self._routes, key=lambda route: route.resting):
            try:
                return await route.open()
            except SessionRefused as refusal:
                refused[route] = refusal.evidence
        raise SessionRefused(self._together(refused))

    def learn(self, evidence: Evidence, route: Route) -> Evidence:
        """Take the *evidence* of a submission into account; returns it with what it says beside its code.

        A wait that one relay asks for is no wait of the channel's while another is ready.
        """
        told = self.named(waiting(evidence), route)
        route.learn(told)
        if told.retry_after is not None and strained(told) and not self._all_rest():
            return replace(told, retry_after=None)
        return told

    def _all_rest(self) -> bool:
        return all(route.resting for route in self._routes)

    def named(self, evidence: Evidence, route: Route) -> Evidence:
        """Return *evidence* with the fact which relay it is of, where there are several."""
        if len(self._routes) == 1:
            return evidence
        return replace(evidence, facts={**evidence.facts, "relay": route.name})

    def _together(self, refused: Mapping[Route, Evidence]) -> Evidence:
        """Return one evidence for the refusals of all relays.

        One that is away may come back, and one that refuses us needs a person: so the channel is said
        to be refused, and pauses, only when each of its relays refuses it. Of several alike the first
        by preference speaks. A stated wait holds if each of these states one, and then the shortest.
        """
        away = {route: found for route, found in refused.items() if not needs_a_person(found)}
        speaking = away or dict(refused)
        first = next(route for route in self._routes if route in speaking)
        waits = [found.retry_after for found in speaking.values()]
        wait = None if None in waits else min(wait for wait in waits if wait is not None)
        return replace(self.named(speaking[first], first), retry_after=wait)


def waiting(evidence: Evidence) -> Evidence:
    """Return *evidence* with the wait that a refusal states."""
    if not evidence.answered or (evidence.reply_code or 0) // 100 < REFUSED:
        return evidence
    return replace(evidence, retry_after=stated_wait(evidence.literal))


def strained(evidence: Evidence) -> bool:
    """Whether a submission ended as it does when a relay is overloaded or goes away."""
    if evidence.answered:
        return evidence.reply_code == CLOSING or evidence.enhanced_code in _UNREADY
    return evidence.fault in _BROKEN


def needs_a_person(evidence: Evidence) -> bool:
    """Whether a refused session stays refused until somebody changes something."""
    for_good = (evidence.reply_code or 0) // 100 == REFUSED_FOR_GOOD
    return for_good or evidence.fault in _MISSING
