"""The breaker of one channel: how many distinct intents met an outage since the last success."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from sendledger.ledger.durations import LONGEST
from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.policy import Policy
from sendledger.ledger.words import Outcome


@dataclass(slots=True, kw_only=True)
class Breaker:
    """Counts faults of ours; one success forgets them. Says when the scope is to be closed.

    One intent alone never closes a channel, whatever it meets: it may be the intent.
    """

    policy: Policy
    intents: set[int] = field(default_factory=set)

    def success(self) -> None:
        """Forget what happened before: the channel took something."""
        self.intents.clear()

    def fault(
        self, intent_id: int, meaning: Classification, evidence: Evidence
    ) -> timedelta | None:
        """Count a fault; returns how long to close the channel for, once enough intents met one.

        A stated wait (Retry-After, a rule's floor) is kept, up to ten years; it closes at once when the
        peer asked for it in so many words.
        """
        if meaning.outcome is not Outcome.TRANSIENT or not meaning.scope.ours:
            return None
        self.intents.add(intent_id)
        asked = evidence.retry_after
        if asked is None and len(self.intents) < self.policy.back_off_intents:
            return None
        self.intents.clear()
        wait = asked or meaning.retry_floor or self.policy.probe
        return min(max(self.policy.probe, wait), LONGEST)
