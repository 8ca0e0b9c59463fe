"""The closed sets that label values come from. Nothing a person, a peer or a file wrote gets past them."""

from __future__ import annotations

from collections.abc import Iterable

from sendledger.ledger.words import Awaits, Outcome, Scope, Status

OTHER = "other"
NO_SCOPE = "none"

AWAITS = tuple(str(word) for word in Awaits)
STATUSES = tuple(str(word) for word in Status)
TASK_KINDS = (
    "failed", "unknown", "contradicted", "held", "paused", "back-off", "commits-lost",
    "receipts-refused",
)  # fmt: skip
"""The kinds of operator task that the ledger admits."""

REFUSALS = frozenset({Outcome.TRANSIENT, Outcome.PERMANENT})
MEANINGS = (
    *((str(outcome), NO_SCOPE) for outcome in Outcome if outcome not in REFUSALS),
    *((str(outcome), str(scope)) for outcome in sorted(REFUSALS) for scope in Scope),
)
"""Every (outcome, scope) that evidence can have: only a refusal is about something."""


class Closed:
    """A closed set of label values."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)
        self._known = frozenset(self.words)

    def __call__(self, word: str) -> str:
        """Return *word* if it is one of the set, else ``other``."""
        return word if word in self._known else OTHER
