"""What becomes of a note, in the words of the loft: as evidence, and what it means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from sendledger.plugin import Classification, Evidence, Outcome, Receipt

RECEIPT, LOOK_UP = "receipt", "look-up"
WORD = re.compile(r"[a-z]{1,20}")
REFERENCE = re.compile(r"P[0-9]{4,12}")

MEANINGS: Mapping[str, Classification] = MappingProxyType(
    {
        "flying": Classification(rule="pigeon.flying", outcome=Outcome.ACCEPTED),
        "home": Classification(rule="pigeon.home", outcome=Outcome.DELIVERED),
        "hawk": Classification(rule="pigeon.hawk", outcome=Outcome.TRANSIENT),
    }
)


def told(stage: str, reference: str, word: str, literal: bytes) -> Receipt:
    """Return *word* about the note of that *reference*. A word is told of a note once, so both name the event."""
    return Receipt(
        identity=f"{reference}/{word}",
        evidence=Evidence(
            stage=stage,
            handed_over=True,
            answered=True,
            literal=literal,
            provider_reference=reference,
            facts={"word": word},
        ),
    )
