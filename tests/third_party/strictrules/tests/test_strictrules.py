"""The deployment's reading: later instead of never, and no opinion where it has no experience."""

from __future__ import annotations

from sendledger.plugin import Evidence, Outcome
from sendledger_strictrules import sendledger_classify


def answered(stage: str, code: int) -> Evidence:
    return Evidence(stage=stage, handed_over=False, answered=True, reply_code=code)


def test_a_forgotten_ring_is_asked_again() -> None:
    found = sendledger_classify(evidence=answered("ring", 510))
    assert found is not None
    assert (found.outcome, found.rule) == (Outcome.TRANSIENT, "strictrules.ring-forgotten")


def test_there_is_no_opinion_about_anything_else() -> None:
    assert sendledger_classify(evidence=answered("ring", 511)) is None
    assert sendledger_classify(evidence=answered("note", 510)) is None
