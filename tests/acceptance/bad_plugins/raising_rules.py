"""Classification that fails over every answer, with the answer in its exception."""

from __future__ import annotations

from sendledger.plugin import Classification, Evidence, hookimpl


@hookimpl
def sendledger_classify(evidence: Evidence) -> Classification | None:
    raise ValueError(f"cannot make sense of {evidence.literal!r}")
