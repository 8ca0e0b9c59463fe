"""The findings that tests bring: an acceptance, a refusal, an answer that never came, a receipt."""

from __future__ import annotations

from dataclasses import replace

from sendledger.journal.advance import Proposal
from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.findings import Finding, result_of
from sendledger.ledger.words import Outcome, Scope, Source, Suppress


def accepted(number: int = 1, *, reference: str | None = "queue-1") -> Finding:
    """Return the answer that the next hop took attempt *number*."""
    evidence = Evidence(
        stage="dot",
        handed_over=True,
        answered=True,
        literal=b"250 2.0.0 queued",
        reply_code=250,
        enhanced_code="2.0.0",
        provider_reference=reference,
    )
    meaning = Classification(rule="default.2yz", outcome=Outcome.ACCEPTED)
    return result_of(number, evidence, meaning)


def refused(
    number: int = 1,
    *,
    final: bool = False,
    scope: Scope = Scope.RECIPIENT,
    suppress: Suppress = Suppress.NONE,
    opt_out: bool = False,
    rule: str = "test.refused",
) -> Finding:
    """Return the answer that refused attempt *number*, not now or, when *final*, never."""
    code = 550 if final else 450
    evidence = Evidence(
        stage="rcpt",
        handed_over=False,
        answered=True,
        literal=f"{code} no".encode(),
        reply_code=code,
    )
    meaning = Classification(
        rule=rule,
        outcome=Outcome.PERMANENT if final else Outcome.TRANSIENT,
        scope=scope,
        suppress=suppress,
        opt_out=opt_out,
    )
    return result_of(number, evidence, meaning)


def unanswered(number: int = 1) -> Finding:
    """Return the result of attempt *number* when nothing was read after the handoff."""
    evidence = Evidence(stage="dot", fault="timeout", handed_over=True, answered=False)
    meaning = Classification(rule="handoff.unanswered", outcome=Outcome.AMBIGUOUS)
    return result_of(number, evidence, meaning)


def receipt(finding: Finding, identity: str = "event-1") -> Finding:
    """Return what *finding* says as a receipt: it came later, by itself."""
    return replace(finding, source=Source.RECEIPT, identity=identity, later=True)


def delivered(number: int = 1, identity: str = "event-1") -> Finding:
    """Return the receipt that attempt *number* arrived."""
    return receipt(replace(accepted(number), outcome=Outcome.DELIVERED), identity)


def proposing(*findings: Finding) -> Proposal:
    """Return a proposal that brings *findings*, whatever stands."""
    return lambda _: findings
