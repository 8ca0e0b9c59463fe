"""The bundled policy: may a candidate go now? It stops for suppressions, and never outlives ``not_after``.

Each rule is a pure function from a candidate to a verdict, or None where it has nothing to say. The
first that speaks decides, so rules stand from final to passing: what denies before what only waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from sendledger.plugin import Candidate, Deny, Go, Verdict, hookimpl

GO_FOR = timedelta(seconds=60)
"""How long a go holds: longer than the wait for a slot, shorter than anybody minds after opting out."""


@hookimpl
async def sendledger_authorize(candidates: Sequence[Candidate]) -> Sequence[Verdict]:
    """Give one verdict per candidate, in order."""
    return [decide(candidate) for candidate in candidates]


def decide(candidate: Candidate) -> Verdict:
    """Return what the first rule that speaks says, else a go."""
    verdicts = (rule(candidate) for rule in RULES)
    return next((verdict for verdict in verdicts if verdict is not None), None) or go(candidate)


def deny_suppressed(candidate: Candidate) -> Verdict | None:
    """Deny while any suppression covers the candidate; the oldest names the rule."""
    if not candidate.suppressions:
        return None
    oldest = min(candidate.suppressions, key=lambda suppression: suppression.since)
    return Deny(rule=oldest.rule or "policy.suppressed")


def go(candidate: Candidate) -> Go:
    """Let the candidate go for a while, but not past its own ``not_after``."""
    until = candidate.now + GO_FOR
    return Go(until=until if candidate.not_after is None else min(until, candidate.not_after))


RULES: tuple[Callable[[Candidate], Verdict | None], ...] = (deny_suppressed,)
