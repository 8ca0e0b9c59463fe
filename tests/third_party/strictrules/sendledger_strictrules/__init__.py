"""One deployment's own reading of its loft, asked before the channel's.

This loft forgets its rings for half a minute whenever it is restarted, and answers 510 to every one of
them. Nobody here is written off for that: 510 is asked again, and only a person strikes a ring off.
"""

from __future__ import annotations

from datetime import timedelta

from sendledger.plugin import Classification, Evidence, Outcome, Scope, hookimpl

FORGOTTEN_RING = 510

AGAIN = Classification(
    rule="strictrules.ring-forgotten",
    outcome=Outcome.TRANSIENT,
    scope=Scope.RECIPIENT,
    retry_floor=timedelta(seconds=1),
)


@hookimpl
def sendledger_classify(evidence: Evidence) -> Classification | None:
    """Have an opinion about a forgotten ring, and none about anything else."""
    if evidence.stage == "ring" and evidence.reply_code == FORGOTTEN_RING:
        return AGAIN
    return None
