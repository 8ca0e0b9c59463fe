"""Classification that takes silence for consent, and a refusal for an acceptance."""

from __future__ import annotations

from sendledger.plugin import Classification, Outcome, hookimpl


@hookimpl
def sendledger_classify() -> Classification | None:
    return Classification(rule="hopeful.all-is-well", outcome=Outcome.DELIVERED)
