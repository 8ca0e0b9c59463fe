"""The script language: what a recipient's address asks this server to do to it. Pure.

A local part may carry outcomes, each after a plus sign: ``pat+rcpt-550-5.1.1@example.test``. Several
play in the order written, ``pat+greylist-1+stall-2@example.test``. The forms are in :data:`LANGUAGE`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

LANGUAGE = """\
A recipient's local part scripts what happens to it: NAME+OUTCOME@DOMAIN, NAME+OUTCOME+OUTCOME@DOMAIN.

  PHASE-CODE[-ENHANCED]        refuse at rcpt, data or dot: rcpt-550-5.1.1, dot-554-5.7.0, rcpt-550
  defer-N-CODE[-ENHANCED]      refuse the first N tries at rcpt, then accept: defer-3-452-4.2.2
  greylist-N                   as defer-N-451-4.7.1, and says that it is greylisting
  drop-PHASE                   close without an answer at rcpt, data (before the 354), body (some of it
                               read), dot (all of it read, not accepted) or replied (after the 250)
  lose-answer                  accept and journal the message, then close without the 250
  stall-SECONDS                accept and journal the message, then wait before the 250
  stall-PHASE-SECONDS          wait at rcpt, data, body, dot, accepted or replied: stall-dot-2

Behind any of them but defer and greylist, -once means only the first time for that address. A code
421 also closes. An outcome that is not in this list is refused with 550 5.3.5.

A script for the whole server (--script) knows these phases too: connect, greeting, ehlo, mail, quit."""


class Phase(StrEnum):
    """The boundaries of an SMTP session as this server reaches them, each before it answers.

    ``body`` is reached with the first bytes of a message read and its end not yet looked for, ``dot`` when
    the end was read, ``accepted`` when the journal holds the message and no 250 has been written, and
    ``replied`` when that 250 has left.
    """

    CONNECT = "connect"
    GREETING = "greeting"
    EHLO = "ehlo"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    BODY = "body"
    DOT = "dot"
    ACCEPTED = "accepted"
    REPLIED = "replied"
    QUIT = "quit"


_OF_RECIPIENT = frozenset(
    {Phase.RCPT, Phase.DATA, Phase.BODY, Phase.DOT, Phase.ACCEPTED, Phase.REPLIED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Answer *code* at *phase*, the first *times* tries or (None) always."""

    phase: Phase
    code: int
    enhanced: str | None
    times: int | None = None
    text: str = "scripted refusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Close the connection at *phase* without an answer."""

    phase: Phase
    times: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Wait *seconds* at *phase*, then go on."""

    phase: Phase
    seconds: float
    times: int | None = None


Outcome = Refuse | Drop | Stall


class ScriptFault(ValueError):  # noqa: N818 - a fault of the script, not of the program
    """The text is no outcome of the language. The message names its first word only."""


_CODE = r"(?P<code>[45]\d\d)(?:-(?P<enhanced>[245]\.\d{1,3}\.\d{1,3}))?"
_ONCE = r"(?P<once>-once)?"
_REFUSALS = "greeting|ehlo|mail|rcpt|data|dot"
_PHASES = "|".join(Phase)


def _refuse(found: re.Match[str]) -> Refuse:
    code, enhanced = int(found["code"]), found["enhanced"]
    return Refuse(phase=Phase(found["phase"]), code=code, enhanced=enhanced, times=_once(found))


def _defer(found: re.Match[str]) -> Refuse:
    code, enhanced = int(found["code"]), found["enhanced"]
    return Refuse(phase=Phase.RCPT, code=code, enhanced=enhanced, times=int(found["times"]))


def _greylist(found: re.Match[str]) -> Refuse:
    return Refuse(
        phase=Phase.RCPT,
        code=451,
        enhanced="4.7.1",
        times=int(found["times"]),
        text="Greylisted, please try again later",
    )


def _drop(found: re.Match[str]) -> Drop:
    return Drop(phase=Phase(found["phase"]), times=_once(found))


def _lose_answer(found: re.Match[str]) -> Drop:
    return Drop(phase=Phase.ACCEPTED, times=_once(found))


def _stall(found: re.Match[str]) -> Stall:
    phase = Phase(found["phase"] or Phase.ACCEPTED)
    return Stall(phase=phase, seconds=float(found["seconds"]), times=_once(found))


def _once(found: re.Match[str]) -> int | None:
    return 1 if found["once"] else None


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Outcome]], ...] = (
    (re.compile(rf"(?P<phase>{_REFUSALS})-{_CODE}{_ONCE}"), _refuse),
    (re.compile(rf"defer-(?P<times>\d{{1,4}})-{_CODE}"), _defer),
    (re.compile(r"greylist-(?P<times>\d{1,4})"), _greylist),
    (re.compile(rf"drop-(?P<phase>{_PHASES}){_ONCE}"), _drop),
    (re.compile(rf"lose-answer{_ONCE}"), _lose_answer),
    (
        re.compile(rf"stall-(?:(?P<phase>{_PHASES})-)?(?P<seconds>\d{{1,4}}(?:\.\d+)?){_ONCE}"),
        _stall,
    ),
)


def parse_outcome(text: str) -> Outcome:
    """Read one outcome, in any letter case. Raises :class:`ScriptFault`."""
    for form, build in _FORMS:
        if found := form.fullmatch(text.lower()):
            return build(found)
    word = text.partition("-")[0][:20]
    shown = word if word.isascii() and word.isalnum() else "it"
    raise ScriptFault(
        f"{shown} does not begin an outcome of the script language, or its rest is wrong"
    )


def parse_recipient(address: str) -> tuple[Outcome, ...]:
    """Read the outcomes in a recipient's local part; none without a plus sign. Raises :class:`ScriptFault`.

    A quoted local part is never a script: its plus signs are somebody's name.
    """
    local_part = address.rpartition("@")[0]
    if local_part.startswith('"'):
        return ()
    outcomes = tuple(parse_outcome(text) for text in local_part.split("+")[1:])
    for outcome in outcomes:
        if outcome.phase not in _OF_RECIPIENT:
            raise ScriptFault(f"only the whole server can script {outcome.phase}")
    return outcomes


class Limited(Hashable, Protocol):
    """An outcome that plays the first *times* tries or (None) always."""

    @property
    def times(self) -> int | None:
        """How many tries it plays."""


class Turns:
    """Counts how often each limited outcome came up, per address; lives as long as its server."""

    def __init__(self) -> None:
        self._taken: Counter[tuple[str, Limited]] = Counter()

    def take(self, address: str, outcome: Limited) -> bool:
        """Whether *outcome* plays this time for *address*."""
        if outcome.times is None:
            return True
        self._taken[address.lower(), outcome] += 1
        return self._taken[address.lower(), outcome] <= outcome.times
