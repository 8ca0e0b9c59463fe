"""Judges a ledger from outside: what its tables and the relay's journal say of each recipient.

It reads nothing else and shares no code with the product, so that it cannot share its mistakes. The
rules are those that must hold when nothing is running any more, however often a worker was killed.
:mod:`acceptance.sms_checker` does the same with the journal of a provider of SMS.
"""

from __future__ import annotations

import base64
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import psycopg
from psycopg.rows import dict_row

from sendledger_sandbox import Accepted, read_journal

INTENTS = """
SELECT i.intent_id, encode(i.intent_key, 'hex') AS key, s.recipient_id AS recipient,
    d.intent_id IS NOT NULL AS has_delivery, d.status, d.awaits, d.due_at, d.attempt_count, d.seq
FROM sendledger.intent AS i
LEFT JOIN sendledger.recipient_secret AS s USING (intent_id)
LEFT JOIN sendledger.delivery AS d USING (intent_id)
ORDER BY i.intent_id
"""
ATTEMPTS = (
    "SELECT intent_id, number, seq, decision_seq FROM sendledger.attempt ORDER BY intent_id, number"
)
OBSERVATIONS = """
SELECT intent_id, seq, source, rule, attempt, outcome, later, ruling, authorises, identity,
    provider_reference
FROM sendledger.observation ORDER BY intent_id, seq
"""

TERMINAL = frozenset({"delivered", "failed", "suppressed"})
REFUSED = frozenset({"transient", "permanent"})
IN_JOURNAL = {
    "submitted": {1},
    "delivered": {1},
    "ambiguous": {0, 1},
    "failed": {0},
    "suppressed": {0},
    "deferred": {0},
    "planned": {0},
}
"""How often the relay may have taken a message, by status: only what is unknown may be either way."""

TOKEN_HEAD = struct.Struct(">QHB")
TOKEN_BYTES = 27


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A row of ``attempt``."""

    number: int
    seq: int
    decision_seq: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A row of ``observation``."""

    seq: int
    source: str
    rule: str
    attempt: int | None
    outcome: str | None
    later: bool
    ruling: str | None
    authorises: int | None
    identity: str
    provider_reference: str | None

    @property
    def names_the_uncertainty(self) -> bool:
        """Whether a person, or the policy that was written for it, chose to risk a second copy."""
        return self.source == "operator" or self.rule == "policy.retry-unknown"


@dataclass(slots=True, kw_only=True)
class Intent:
    """An intent with everything the ledger and the journal hold of it."""

    intent_id: int
    key: str
    recipient: str | None
    has_delivery: bool
    status: str | None
    awaits: str | None
    due_at: datetime | None
    attempt_count: int | None
    seq: int | None
    attempts: list[Attempt] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)

    def said_of(self, number: int) -> list[Observation]:
        """Return the evidence about one attempt."""
        return [seen for seen in self.observations if seen.attempt == number and seen.outcome]

    def opened(self, number: int) -> bool:
        """Whether there is an attempt of that number."""
        return any(attempt.number == number for attempt in self.attempts)


Intents = Mapping[int, Intent]
"""By id."""

Rule = Callable[[Intent], Iterator[str]]
"""Says what is wrong with an intent."""


def violations(dsn: str, journal: Path, planned: Collection[str]) -> list[str]:
    """Return a sentence for each promise that ledger and journal together break; [] when all hold.

    *planned* are the caller's ids of everybody who was accepted for sending.
    """
    intents = read_intents(dsn)
    entries = read_journal(journal) if journal.exists() else []
    untied = [said for entry in entries for said in _tie(intents, entry)]
    return [*untied, *judge(intents, planned, (*RULES, _disagreeing))]


def read_intents(dsn: str) -> dict[int, Intent]:
    """Read the tables as they stand together."""
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        intents = {row["intent_id"]: Intent(**row) for row in connection.execute(INTENTS)}
        for row in connection.execute(ATTEMPTS):
            intents[row.pop("intent_id")].attempts.append(Attempt(**row))
        for row in connection.execute(OBSERVATIONS):
            intents[row.pop("intent_id")].observations.append(Observation(**row))
    return intents


def judge(intents: Intents, planned: Collection[str], rules: Sequence[Rule]) -> list[str]:
    """Return what *rules* find, and who of those that were *planned* is not there, or twice."""
    found = list(_missing(intents.values(), planned))
    for intent in intents.values():
        found += [f"{intent.key[:12]}: {said}" for rule in rules for said in rule(intent)]
    return found


# --- the journal ---------------------------------------------------------------------------------


def _tie(intents: Intents, entry: Accepted) -> Iterator[str]:
    """Note *entry* with its intent, or say why it belongs to no committed attempt."""
    named = f"journal entry {entry.n}"
    return_path = entry.mail_from.partition("@")[0].removeprefix("b+")
    if entry.token is None or return_path != entry.token:
        yield f"{named}: token header and return path do not name the same attempt"
        return
    decoded = decode_token(entry.token)
    if decoded is None:
        yield f"{named}: its token cannot be decoded"
        return
    intent_id, number = decoded
    intent = intents.get(intent_id)
    if intent is None or not intent.opened(number):
        yield f"{named}: attempt {number} of intent {intent_id} was never committed"
        return
    if (entry.message_id or "").strip("<>").partition("@")[0] != intent.key:
        yield f"{named}: its Message-ID is not that of the intent its token names"
    intent.taken.append(number)


def decode_token(token: str) -> tuple[int, int] | None:
    """Return (intent id, attempt number) of a correlation token, or None; the MAC is not looked at."""
    try:
        raw = base64.b32decode(token.upper() + "=" * (-len(token) % 8))
    except ValueError:
        return None
    if len(raw) != TOKEN_BYTES:
        return None
    intent_id, number, _key_id = TOKEN_HEAD.unpack_from(raw)
    return intent_id, number


# --- the rules -----------------------------------------------------------------------------------


def _missing(intents: Iterable[Intent], planned: Collection[str]) -> Iterator[str]:
    found = Counter(intent.recipient for intent in intents)
    for recipient in sorted(set(planned) - set(found)):
        yield f"recipient {recipient} is missing: there is no intent"
    for recipient in sorted(name for name, times in found.items() if name and times > 1):
        yield f"recipient {recipient} has {found[recipient]} intents"
    for recipient in sorted(name for name in found if name and name not in planned):
        yield f"recipient {recipient} was never planned"


def _unexplained(intent: Intent) -> Iterator[str]:
    if not intent.has_delivery:
        yield "the delivery is missing"
    elif intent.status in TERMINAL:
        if intent.awaits is not None:
            yield f"{intent.status} and still awaits {intent.awaits}"
    elif intent.status not in {"submitted", "ambiguous"} and not (intent.awaits and intent.due_at):
        yield f"{intent.status} and nobody can say what it waits for, or until when"


def _taken_twice(intent: Intent) -> Iterator[str]:
    for number, times in Counter(intent.taken).items():
        if times > 1:
            yield f"attempt {number} was submitted {times} times"


def _resubmitted(intent: Intent) -> Iterator[str]:
    """Attempt n needs a decision that names it, and everything before it a refusal or that decision's word."""
    for attempt in intent.attempts:
        if attempt.number == 1:
            continue
        decision = _decision_for(intent, attempt)
        if decision is None:
            yield f"attempt {attempt.number} was opened without a decision that authorises it"
            continue
        for earlier in range(1, attempt.number):
            if not (decision.names_the_uncertainty or _refused(intent, earlier, attempt.seq)):
                yield (
                    f"attempt {attempt.number} was opened though attempt {earlier} was not refused"
                    " and no decision names that uncertainty"
                )


def _decision_for(intent: Intent, attempt: Attempt) -> Observation | None:
    for seen in intent.observations:
        if seen.seq == attempt.decision_seq and seen.authorises == attempt.number:
            return seen if seen.seq < attempt.seq else None
    return None


def _refused(intent: Intent, number: int, before_seq: int) -> bool:
    return any(seen.outcome in REFUSED and seen.seq < before_seq for seen in intent.said_of(number))


def _gaps(intent: Intent) -> Iterator[str]:
    numbers = [attempt.number for attempt in intent.attempts]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"attempt numbers are {numbers}, not 1 to n"
    if intent.has_delivery and intent.attempt_count != len(numbers):
        yield f"the delivery counts {intent.attempt_count} attempts, the ledger holds {len(numbers)}"
    seqs = sorted([row.seq for row in intent.attempts] + [row.seq for row in intent.observations])
    if intent.has_delivery and seqs != list(range(1, (intent.seq or 0) + 1)):
        yield f"ledger rows are {seqs}, the delivery stands at {intent.seq}"


def _disagreeing(intent: Intent) -> Iterator[str]:
    times = len(intent.taken)
    if intent.status in IN_JOURNAL and times not in IN_JOURNAL[intent.status]:
        yield f"{intent.status}, and the relay took it {times} times"
    for number in sorted(set(intent.taken)):
        if any(seen.outcome in REFUSED for seen in intent.said_of(number)):
            yield f"attempt {number} stands refused, and the relay took it"


def _unanswered(intent: Intent) -> Iterator[str]:
    if intent.status == "submitting":
        yield "still submitting, and nobody is"
    for attempt in intent.attempts:
        if not intent.said_of(attempt.number):
            yield f"attempt {attempt.number} has neither a result nor a lease observation"


RULES: tuple[Rule, ...] = (_unexplained, _taken_twice, _resubmitted, _gaps, _unanswered)
"""Those that hold whatever the next hop is."""
