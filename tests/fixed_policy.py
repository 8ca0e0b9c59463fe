"""The policy of the tests and the terms that attempts are opened under; nothing in them is scaled."""

from __future__ import annotations

from datetime import timedelta

from sendledger.ledger.policy import Policy
from sendledger.store.attempts import Terms

POLICY = Policy(
    revision="test-1",
    retry_delays=(timedelta(seconds=30), timedelta(minutes=2)),
    jitter=0.2,
    attempts_hard_max=5,
    give_up_after=None,
    unknown_wait=timedelta(hours=1),
    unknown_then="hold",
    evidence_wait=timedelta(hours=4),
    back_off_intents=3,
    probe=timedelta(seconds=30),
    probe_max=timedelta(minutes=5),
    task_after=timedelta(minutes=30),
    claims_max=5,
)
TERMS = Terms(
    handoff_max=timedelta(minutes=5),
    unknown_wait=POLICY.unknown_wait,
    evidence_wait=POLICY.evidence_wait,
    window=timedelta(hours=8),
    margin=timedelta(seconds=10),
    token_key_id=1,
    policy_revision=POLICY.revision,
)
