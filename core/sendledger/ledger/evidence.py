"""Literal evidence of a submission, and what a rule says it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType

from sendledger.ledger.words import Outcome, Scope, Suppress

NO_FACTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was read and how far the handoff had come; never a verdict.

    ``stage`` is the step that was answered or broke, in the channel's own closed words (SMTP: connect,
    tls, greeting, ehlo, auth, mail, rcpt, data, dot). ``handed_over`` is set from the moment the write
    that holds the final dot (the request) was given to the transport: from there on silence proves nothing.
    ``answered`` says that a complete, well-formed reply was read. ``literal`` is that reply byte for byte.
    ``fault`` is a closed word for a broken step (refused, dns, tls, timeout, closed, protocol) or None.
    """

    stage: str
    handed_over: bool
    answered: bool
    literal: bytes = field(default=b"", repr=False)
    reply_code: int | None = None
    enhanced_code: str | None = None
    provider_reference: str | None = None
    fault: str | None = None
    retry_after: timedelta | None = None
    facts: Mapping[str, str] = field(default_factory=lambda: NO_FACTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """What evidence means, by which rule.

    ``retry_floor`` is the earliest next attempt, and ``attempts_max`` how many may be spent in all where
    this was met: fewer than the policy admits. ``suppress`` names whom a permanent refusal stops;
    ``opt_out`` marks the recipient's own refusal (status suppressed instead of failed).
    """

    rule: str
    outcome: Outcome
    scope: Scope = Scope.RECIPIENT
    retry_floor: timedelta | None = None
    attempts_max: int | None = None
    suppress: Suppress = Suppress.NONE
    opt_out: bool = False

    @property
    def configuration_fault(self) -> bool:
        """Permanent, but about us: it pauses the sender or channel and never fails the recipient."""
        return self.outcome is Outcome.PERMANENT and self.scope.ours
