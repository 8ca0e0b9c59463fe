"""From literal evidence to its meaning: the first rule that matches, held to what can be true."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType

from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.words import Outcome, Scope, Suppress

NO_CONDITIONS: Mapping[str, frozenset[str]] = MappingProxyType({})

UNMAPPED = "receipt.unmapped"
"""The rule of a receipt that no rule knows."""

REMEMBERED_MAX = 1000
"""How many combinations of stage, fault and codes a table keeps in mind: it is peers who choose the codes."""

# Servers quote the destination in their replies; a person's address must not decide what a reply means.
_ADDRESS = re.compile(rb"\S*@\S*")

_TAKEN = Classification(rule="default.2yz", outcome=Outcome.ACCEPTED)

# RFC 5321 section 3: who a refusal is about follows from how far the session had come.
_SCOPES = {
    "connect": Scope.CHANNEL,
    "tls": Scope.CHANNEL,
    "greeting": Scope.CHANNEL,
    "ehlo": Scope.CHANNEL,
    "auth": Scope.CHANNEL,
    "mail": Scope.SENDER,
    "rcpt": Scope.RECIPIENT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Conditions that must all hold, and what the evidence then means.

    A condition that is None or empty asks nothing. ``codes`` and ``enhanced`` hold patterns in which
    ``x`` stands for one digit (``5xx``) or for one whole number (``x.2.2``); ``text`` is searched in
    the literal reply with addresses taken out; ``facts`` maps a fact's name to its admitted values.
    """

    id: str
    outcome: Outcome
    scope: Scope = Scope.RECIPIENT
    stages: frozenset[str] | None = None
    codes: tuple[str, ...] = ()
    enhanced: tuple[str, ...] = ()
    text: re.Pattern[bytes] | None = None
    faults: frozenset[str] | None = None
    facts: Mapping[str, frozenset[str]] = field(default_factory=lambda: NO_CONDITIONS)
    retry_floor: timedelta | None = None
    attempts_max: int | None = None
    suppress: Suppress = Suppress.NONE
    opt_out: bool = False

    def matches(self, evidence: Evidence) -> bool:
        """Whether every condition of this rule holds for *evidence*."""
        return self.matches_codes(evidence) and self.matches_words(evidence)

    def matches_codes(self, evidence: Evidence) -> bool:
        """Whether the conditions on stage, fault and codes hold for *evidence*."""
        return (
            (self.stages is None or evidence.stage in self.stages)
            and (self.faults is None or evidence.fault in self.faults)
            and (not self.codes or _matches_code(self.codes, evidence.reply_code))
            and (not self.enhanced or _matches_enhanced(self.enhanced, agreed_enhanced(evidence)))
        )

    def matches_words(self, evidence: Evidence) -> bool:
        """Whether the conditions on facts and text hold for *evidence*."""
        return all(evidence.facts.get(name) in values for name, values in self.facts.items()) and (
            self.text is None or self.text.search(_ADDRESS.sub(b"", evidence.literal)) is not None
        )

    def classification(self) -> Classification:
        """Say what evidence means that this rule matches."""
        return Classification(
            rule=self.id,
            outcome=self.outcome,
            scope=self.scope,
            retry_floor=self.retry_floor,
            attempts_max=self.attempts_max,
            suppress=self.suppress,
            opt_out=self.opt_out,
        )


class RuleTable:
    """Rules in their order. Which of them stage, fault and codes leave in question is worked out once.

    A table has dozens of rules, most of them for refusals, and nearly all evidence says 250.
    """

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self._left: dict[tuple[object, ...], tuple[Rule, ...]] = {}

    def classify(self, evidence: Evidence) -> Classification | None:
        """Return what the first matching rule says, or None when no rule matches."""
        for rule in self._in_question(evidence):
            if rule.matches_words(evidence):
                return rule.classification()
        return None

    def _in_question(self, evidence: Evidence) -> tuple[Rule, ...]:
        key = (evidence.stage, evidence.fault, evidence.reply_code, evidence.enhanced_code)
        left = self._left.get(key)
        if left is None:
            left = tuple(rule for rule in self.rules if rule.matches_codes(evidence))
            if len(self._left) < REMEMBERED_MAX:
                self._left[key] = left
        return left


def classify(rules: Sequence[Rule], evidence: Evidence) -> Classification | None:
    """Return what the first matching rule says, or None when no rule matches."""
    for rule in rules:
        if rule.matches(evidence):
            return rule.classification()
    return None


def sound(verdict: Classification | None, evidence: Evidence) -> Classification:
    """Return *verdict* where it can be true of *evidence*, else the default by phase and reply class.

    No rule and no plugin can talk uncertainty away: evidence that was handed over and not answered
    is ambiguous. Nor can one undo an acceptance: a positive answer after the handoff is the transfer
    of responsibility (RFC 5321 section 4.2.5). And what was never handed over cannot be accepted,
    arrived or in doubt. A channel whose provider refuses inside a positive reply must therefore
    report the provider's own code instead of the reply's.
    """
    if evidence.handed_over and not evidence.answered:
        return Classification(rule="handoff.unanswered", outcome=Outcome.AMBIGUOUS)
    if verdict is None or not _possible(verdict.outcome, evidence):
        return _by_class(evidence)
    return verdict


def sound_later(verdict: Classification | None) -> Classification:
    """Return *verdict* where evidence that came after the handoff can mean it, else an acceptance.

    A receipt or a find of a look-up proves that the attempt was taken, whatever else it says. What no
    rule knows is kept as evidence and moves nothing further: providers add words without notice.
    """
    if verdict is None:
        return Classification(rule=UNMAPPED, outcome=Outcome.ACCEPTED)
    if verdict.outcome is Outcome.AMBIGUOUS:
        return Classification(rule=verdict.rule, outcome=Outcome.ACCEPTED)
    return verdict


def agreed_enhanced(evidence: Evidence) -> str | None:
    """Return the enhanced status code, unless its class contradicts the reply code.

    RFC 2034 section 4 wants the classes to agree; where servers answer ``450 5.1.1`` the protocol's
    own digit wins and the detail is not to be trusted. The literal stays in the evidence.
    """
    code, enhanced = evidence.reply_code, evidence.enhanced_code
    if code is None or enhanced is None or enhanced.split(".")[0] == str(code)[0]:
        return enhanced
    return None


def _possible(outcome: Outcome, evidence: Evidence) -> bool:
    arrived = outcome in {Outcome.ACCEPTED, Outcome.DELIVERED}
    if not evidence.handed_over:
        return outcome in {Outcome.TRANSIENT, Outcome.PERMANENT}
    return arrived or _reply_class(evidence) != 2  # noqa: PLR2004 - 2yz, RFC 5321 section 4.2.1


def _by_class(evidence: Evidence) -> Classification:
    match _reply_class(evidence), evidence.handed_over:
        case 2, True:
            return _TAKEN
        case 4, _:
            return Classification(
                rule="default.4yz", outcome=Outcome.TRANSIENT, scope=_transient_scope(evidence)
            )
        case 5, _:
            scope = _SCOPES.get(evidence.stage, Scope.MESSAGE)
            return Classification(rule="default.5yz", outcome=Outcome.PERMANENT, scope=scope)
        case _, True:
            return Classification(rule="handoff.unreadable", outcome=Outcome.AMBIGUOUS)
        case _:
            return Classification(
                rule="default.broken", outcome=Outcome.TRANSIENT, scope=Scope.CHANNEL
            )


def _transient_scope(evidence: Evidence) -> Scope:
    # Before a recipient was named, "not now" is the next hop's own trouble; no sender is at fault.
    scope = _SCOPES.get(evidence.stage, Scope.MESSAGE)
    return Scope.CHANNEL if scope.ours else scope


def _reply_class(evidence: Evidence) -> int | None:
    if not evidence.answered or evidence.reply_code is None:
        return None
    return evidence.reply_code // 100


def _matches_code(patterns: tuple[str, ...], code: int | None) -> bool:
    return code is not None and any(_digits_agree(pattern, str(code)) for pattern in patterns)


def _digits_agree(pattern: str, digits: str) -> bool:
    return len(pattern) == len(digits) and all(
        wanted in ("x", found) for wanted, found in zip(pattern, digits, strict=True)
    )


def _matches_enhanced(patterns: tuple[str, ...], enhanced: str | None) -> bool:
    if enhanced is None:
        return False
    numbers = enhanced.split(".")
    return any(_numbers_agree(pattern.split("."), numbers) for pattern in patterns)


def _numbers_agree(pattern: Sequence[str], numbers: Sequence[str]) -> bool:
    return len(pattern) == len(numbers) and all(
        wanted in ("x", found) for wanted, found in zip(pattern, numbers, strict=True)
    )
