"""The closed sets that label values come from. Nothing a person, a peer or a file wrote gets past them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sendledger.ledger.words import Awaits, Outcome, Scope, Status

OTHER = "other"
_WORD = re.compile(r"[a-z][a-z-]{0,31}")
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


class Learned:
    """A set of label values that is closed by its size: the first few words of a plugin, then no more."""

    def __init__(self, words_max: int = 20) -> None:
        self._words_max = words_max
        self._words: set[str] = set()

    def __call__(self, word: str) -> str:
        """Return *word* if it looks like one and is among the first, else ``other``."""
        if word not in self._words:
            if len(self._words) >= self._words_max or not _WORD.fullmatch(word):
                return OTHER
            self._words.add(word)
        return word
