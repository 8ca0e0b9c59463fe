"""The script language: what can be asked of this server, for everybody or for one number. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sendledger_sandbox.script import ScriptFault

LANGUAGE = """\
A script is one or more outcomes with plus signs between them: rate-limit-2-once+end-undelivered-30003.

  refuse-CODE                  refuse to accept, with that error code of Twilio's and the status that it has
  http-STATUS[-PHASE]          answer with this status (4xx, 5xx) at request, accepted or look-up
  rate-limit-SECONDS           answer 429 with this Retry-After, and accept nothing
  drop-PHASE                   close without an answer at request, accepted or look-up
  lose-answer                  accept and journal, then close without an answer
  garble-answer                accept and journal, then answer 201 with half of the body
  silence                      accept and journal, then never answer
  stall-SECONDS                accept and journal, then wait before the answer
  stall-PHASE-SECONDS          wait at request, accepted or look-up
  twice                        accept two messages for one request, and answer for the second
  end-STATUS[-CODE]            end there instead of at delivered: end-undelivered-30003, end-sent; of
                               several, one follows the other
  callbacks-none               post no status callback
  callbacks-twice              post each of them twice, at the same time
  callbacks-reversed           post the last one first
  callbacks-early              post them all before the request is answered
  callbacks-forged             sign them with another token
  callbacks-forged-first       before each, post one with another token that says failed
  callbacks-late-SECONDS       post them all this long after the last change

Behind any of those above twice, -once means only the first time for that number. A script for the whole
server (--script) knows one more phase for drop and stall: connect."""


class Phase(StrEnum):
    """The boundaries that this server reaches, each before it goes on.

    ``request`` is reached when a request to create a message was read and is in order, ``accepted`` when
    the journal holds it and nothing was answered, ``answered`` when the answer has left. ``callback`` comes
    before a status callback is posted, ``acknowledged`` when its answer was read, or its failure is known.
    ``look-up`` is a fetch or a list that was read.
    """

    CONNECT = "connect"
    REQUEST = "request"
    ACCEPTED = "accepted"
    ANSWERED = "answered"
    CALLBACK = "callback"
    ACKNOWLEDGED = "acknowledged"
    LOOK_UP = "look-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Answer *status* at *phase*, with Twilio's *code*."""

    phase: Phase
    status: int
    code: int
    retry_after_s: int | None = None
    times: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Close the connection at *phase* without an answer."""

    phase: Phase
    times: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Wait *seconds* at *phase*, then go on; for ever when they are infinite."""

    phase: Phase
    seconds: float
    times: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Garble:
    """Answer 201 with a body that cannot be read, once the message is accepted."""

    times: int | None = None
    phase: Phase = Phase.ACCEPTED


Staged = Refuse | Drop | Stall | Garble
"""What happens to a request, at a boundary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The status where a message ends, and the error code that it carries there."""

    status: str
    code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """Callbacks wait *seconds* after the last change of status."""

    seconds: float


class Oddity(StrEnum):
    """What is unusual about a message that was accepted, or about its callbacks."""

    TWICE_ACCEPTED = "twice"
    NO_CALLBACKS = "callbacks-none"
    TWICE = "callbacks-twice"
    REVERSED = "callbacks-reversed"
    EARLY = "callbacks-early"
    FORGED = "callbacks-forged"
    FORGED_FIRST = "callbacks-forged-first"


Outcome = Staged | End | Late | Oddity


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What becomes of a message once it is accepted."""

    ends: tuple[End, ...] = (End(status="delivered"),)
    oddities: frozenset[Oddity] = frozenset()
    late_s: float = 0.0


def staged_in(outcomes: Iterable[Outcome]) -> tuple[Staged, ...]:
    """Return what happens to the request, in the order written."""
    return tuple(found for found in outcomes if isinstance(found, Refuse | Drop | Stall | Garble))


def course_in(own: Sequence[Outcome], everywhere: Sequence[Outcome] = ()) -> Course:
    """Return what becomes of a message: what its number asks for, beside what is asked for everybody."""
    both = (*own, *everywhere)
    return Course(
        ends=_ends(own) or _ends(everywhere) or Course().ends,
        oddities=frozenset(found for found in both if isinstance(found, Oddity)),
        late_s=sum(found.seconds for found in both if isinstance(found, Late)),
    )


def _ends(outcomes: Sequence[Outcome]) -> tuple[End, ...]:
    return tuple(found for found in outcomes if isinstance(found, End))


# --- the language ----------------------------------------------------------------------------------

_STATUS_OF_CODE = {20003: 401, 20404: 404, 20429: 429, 20500: 500, 20503: 503}
"""HTTP statuses of Twilio's error codes; every code that is not here comes with 400."""
_CODE_OF_STATUS = {status: code for code, status in _STATUS_OF_CODE.items()}

_ONCE = r"(?P<once>-once)?"
_PHASES = "connect|request|accepted|look-up"
_SECONDS = r"(?P<seconds>\d{1,4}(?:\.\d+)?)"


def status_of(code: int) -> int:
    """Return the HTTP status that an error code comes with."""
    return _STATUS_OF_CODE.get(code, 400)


def _times(found: re.Match[str]) -> int | None:
    return 1 if found["once"] else None


def _refuse(found: re.Match[str]) -> Outcome:
    code = int(found["code"])
    return Refuse(phase=Phase.REQUEST, status=status_of(code), code=code, times=_times(found))


def _http(found: re.Match[str]) -> Outcome:
    phase, status = Phase(found["phase"] or Phase.REQUEST), int(found["status"])
    code = _CODE_OF_STATUS.get(status, 20000 + status)
    return Refuse(phase=phase, status=status, code=code, times=_times(found))


def _rate_limit(found: re.Match[str]) -> Outcome:
    wait_s = int(found["seconds"])
    return Refuse(
        phase=Phase.REQUEST, status=429, code=20429, retry_after_s=wait_s, times=_times(found)
    )


def _drop(found: re.Match[str]) -> Outcome:
    return Drop(phase=Phase(found["phase"]), times=_times(found))


def _lose_answer(found: re.Match[str]) -> Outcome:
    return Drop(phase=Phase.ACCEPTED, times=_times(found))


def _garble_answer(found: re.Match[str]) -> Outcome:
    return Garble(times=_times(found))


def _silence(found: re.Match[str]) -> Outcome:
    return Stall(phase=Phase.ACCEPTED, seconds=math.inf, times=_times(found))


def _stall(found: re.Match[str]) -> Outcome:
    phase = Phase(found["phase"] or Phase.ACCEPTED)
    return Stall(phase=phase, seconds=float(found["seconds"]), times=_times(found))


def _end(found: re.Match[str]) -> Outcome:
    return End(status=found["status"], code=int(found["code"]) if found["code"] else None)


def _late(found: re.Match[str]) -> Outcome:
    return Late(seconds=float(found["seconds"]))


def _oddity(found: re.Match[str]) -> Outcome:
    return Oddity(found[0])


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Outcome]], ...] = (
    (re.compile(rf"refuse-(?P<code>\d{{5}}){_ONCE}"), _refuse),
    (re.compile(rf"http-(?P<status>[45]\d\d)(?:-(?P<phase>{_PHASES}))?{_ONCE}"), _http),
    (re.compile(rf"rate-limit-(?P<seconds>\d{{1,4}}){_ONCE}"), _rate_limit),
    (re.compile(rf"drop-(?P<phase>{_PHASES}){_ONCE}"), _drop),
    (re.compile(rf"lose-answer{_ONCE}"), _lose_answer),
    (re.compile(rf"garble-answer{_ONCE}"), _garble_answer),
    (re.compile(rf"silence{_ONCE}"), _silence),
    (re.compile(rf"stall-(?:(?P<phase>{_PHASES})-)?{_SECONDS}{_ONCE}"), _stall),
    (re.compile(r"end-(?P<status>[a-z]+(?:_[a-z]+)*)(?:-(?P<code>\d{5}))?"), _end),
    (re.compile(rf"callbacks-late-{_SECONDS}"), _late),
    (re.compile("|".join(Oddity)), _oddity),
)


def parse_script(text: str, *, connect: bool = False) -> tuple[Outcome, ...]:
    """Read outcomes, in any letter case. Raises :class:`ScriptFault`.

    Only where *connect* is set may they be about connections, which belong to nobody yet.
    """
    outcomes = tuple(_parse_outcome(one) for one in text.lower().split("+")) if text else ()
    for outcome in staged_in(outcomes):
        if outcome.phase is Phase.CONNECT and not (connect and isinstance(outcome, Drop | Stall)):
            raise ScriptFault("only the whole server can script connect, to drop or to stall there")
    return outcomes


def _parse_outcome(text: str) -> Outcome:
    for form, build in _FORMS:
        if found := form.fullmatch(text):
            return build(found)
    word = text.partition("-")[0][:20]
    shown = word if word.isascii() and word.isalpha() else "it"
    raise ScriptFault(
        f"{shown} does not begin an outcome of the script language, or its rest is wrong"
    )
