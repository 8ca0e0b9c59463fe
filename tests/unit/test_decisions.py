"""Decisions: what follows from a refusal, and what may be written without one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from findings import accepted, refused, unanswered
from fixed_policy import POLICY
from fold_rows import T0, at
from sendledger.ledger import decisions
from sendledger.ledger.decisions import Circumstances, after_refusal, decision_needed, past_deadline
from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.findings import Finding, lost_in_lease, result_of, storable
from sendledger.ledger.rows import Delivery
from sendledger.ledger.words import Awaits, Outcome, Ruling, Scope, Source, Status, Suppress

NOW = at(60)
AT = Circumstances(policy=POLICY, now=NOW, eligible_at=T0, not_after=None, chance=0.0)
LATER = timedelta(minutes=10)


def deferred(*, attempts: int = 1, spent: int = 1, seq: int = 2) -> Delivery:
    return Delivery(
        status=Status.DEFERRED,
        awaits=Awaits.DECISION,
        due_at=T0,
        attempt_count=attempts,
        spent=spent,
        seq=seq,
    )


# --- after a refusal -------------------------------------------------------------------------


def test_a_refusal_within_the_budget_is_tried_again_after_its_delay() -> None:
    decision = after_refusal(refused(1), deferred(), AT)
    assert (decision.ruling, decision.authorises) == (Ruling.RETRY, 2)
    assert decision.due_at == NOW + timedelta(seconds=30)
    assert (decision.source, decision.rule) == (Source.POLICY, "policy.retry")


def test_jitter_comes_from_the_chance_that_is_handed_in() -> None:
    decision = after_refusal(refused(1), deferred(), replace(AT, chance=0.5))
    assert decision.due_at == NOW + timedelta(seconds=33)


def test_the_floor_of_a_rule_outweighs_the_delay() -> None:
    decision = after_refusal(refused(1), deferred(), replace(AT, floor=LATER))
    assert decision.due_at == NOW + LATER


def test_the_ceiling_is_one_more_than_the_delays() -> None:
    last_but_one = after_refusal(refused(2), deferred(attempts=2, spent=2), AT)
    last = after_refusal(refused(3), deferred(attempts=3, spent=3), AT)
    assert POLICY.ceiling == 3
    assert last_but_one.ruling is Ruling.RETRY
    assert (last.ruling, last.rule) == (Ruling.EXHAUST, "policy.exhausted")


def test_a_rule_may_bound_the_attempts_tighter_than_the_policy_and_never_wider() -> None:
    def decided(spent: int, attempts_max: int) -> Ruling | None:
        bound = replace(AT, attempts_max=attempts_max)
        return after_refusal(refused(spent), deferred(attempts=spent, spent=spent), bound).ruling

    assert [decided(spent, 2) for spent in (1, 2)] == [Ruling.RETRY, Ruling.EXHAUST]
    assert [decided(spent, 9) for spent in (2, 3)] == [Ruling.RETRY, Ruling.EXHAUST]


def test_a_fault_of_ours_spends_nothing_and_waits_for_a_probe() -> None:
    ours = refused(4, scope=Scope.CHANNEL)
    decision = after_refusal(ours, deferred(attempts=4, spent=3), AT)
    assert not ours.spent
    assert (decision.ruling, decision.due_at) == (Ruling.RETRY, NOW + POLICY.probe)


def test_a_fault_of_ours_waits_as_long_as_the_peer_asked() -> None:
    asked = replace(AT, floor=LATER)
    decision = after_refusal(refused(1, scope=Scope.CHANNEL), deferred(spent=0), asked)
    assert decision.due_at == NOW + LATER


@pytest.mark.parametrize("scope", [Scope.RECIPIENT, Scope.CHANNEL])
def test_the_hard_maximum_holds_whatever_the_attempts_were_spent_on(scope: Scope) -> None:
    decision = after_refusal(refused(5, scope=scope), deferred(attempts=5, spent=0), AT)
    assert (decision.ruling, decision.cause) == (Ruling.HOLD, "policy.attempts-hard-max")


def test_a_policy_may_use_every_attempt_the_ledger_admits() -> None:
    policy = replace(POLICY, attempts_hard_max=decisions.ATTEMPTS_MAX)
    at_most = replace(AT, policy=policy)
    ours = refused(49, scope=Scope.CHANNEL)
    assert after_refusal(ours, deferred(attempts=49), at_most).authorises == 50
    assert after_refusal(ours, deferred(attempts=50), at_most).ruling is Ruling.HOLD


def test_a_configuration_fault_is_held_under_what_it_pauses() -> None:
    fault = refused(1, final=True, scope=Scope.SENDER, rule="test.unregistered")
    decision = after_refusal(fault, deferred(), replace(AT, pause_scope="sender:mail/office"))
    assert (decision.ruling, decision.rule) == (Ruling.HOLD, "test.unregistered")
    assert (decision.cause, decision.due_at) == ("sender:mail/office", NOW)


def test_holds_of_one_row_are_never_taken_for_each_other() -> None:
    fault = refused(2, final=True, scope=Scope.SENDER)
    holds = [after_refusal(fault, deferred(attempts=2, seq=seq), AT) for seq in (5, 8)]
    assert holds[0].identity != holds[1].identity


def test_a_refusal_of_a_settled_row_asks_a_person() -> None:
    decision = after_refusal(refused(1), deferred(), replace(AT, was_settled=True))
    assert (decision.ruling, decision.attempt) == (Ruling.ASK, 1)
    assert decision.rule == "policy.refused-after-settled"


def test_a_configuration_fault_of_a_settled_row_is_held_all_the_same() -> None:
    fault = refused(1, final=True, scope=Scope.CHANNEL)
    decision = after_refusal(fault, deferred(), replace(AT, was_settled=True))
    assert decision.ruling is Ruling.HOLD


def test_what_was_asked_before_is_asked_again_for_another_reason() -> None:
    asked = decisions.ask(1, rule="policy.unknown-handoff", now=NOW)
    again = after_refusal(refused(1), deferred(), replace(AT, was_settled=True))
    assert asked.identity != again.identity


# --- the last instant ------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "ruling"), [(30, Ruling.EXPIRE), (31, Ruling.RETRY)])
def test_a_retry_at_or_past_not_after_expires(seconds: int, ruling: Ruling) -> None:
    until = replace(AT, not_after=NOW + timedelta(seconds=seconds))
    assert after_refusal(refused(1), deferred(), until).ruling is ruling


@pytest.mark.parametrize(("seconds", "ruling"), [(29, Ruling.EXPIRE), (30, Ruling.RETRY)])
def test_a_retry_past_give_up_after_expires(seconds: int, ruling: Ruling) -> None:
    patience = NOW - T0 + timedelta(seconds=seconds)
    until = replace(AT, policy=replace(POLICY, give_up_after=patience))
    assert after_refusal(refused(1), deferred(), until).ruling is ruling


def test_a_row_without_a_last_instant_never_expires() -> None:
    assert not past_deadline(at(10_000_000), AT)


@pytest.mark.parametrize(
    ("status", "awaits", "needed"),
    [
        (Status.DEFERRED, Awaits.DECISION, True),
        (Status.DEFERRED, Awaits.RETRY, False),
        (Status.DEFERRED, Awaits.RELEASE, False),
        (Status.AMBIGUOUS, Awaits.DECISION, False),
        (Status.FAILED, None, False),
    ],
)
def test_only_a_refusal_that_stands_alone_needs_a_decision(
    status: Status, awaits: Awaits | None, needed: bool
) -> None:
    due = T0 if awaits else None
    assert decision_needed(Delivery(status=status, awaits=awaits, due_at=due)) is needed


# --- findings --------------------------------------------------------------------------------

ALONE = {
    "wait": (decisions.wait("quiet-hours", at(9)), Ruling.WAIT, at(9)),
    "expired": (decisions.expired(2), Ruling.EXPIRE, None),
    "fault": (decisions.fault("content.erased", 2), Ruling.FAULT, None),
    "denied": (decisions.denied("suppression", 2), Ruling.SUPPRESS, None),
    "close": (decisions.close_window(1), Ruling.CLOSE, None),
    "retry": (decisions.retry(2, rule="r", due_at=NOW), Ruling.RETRY, NOW),
    "hold": (decisions.hold("r", identity="hold/4", cause="all", now=NOW), Ruling.HOLD, NOW),
    "ask": (decisions.ask(1, rule="r", now=NOW), Ruling.ASK, NOW),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_decision_says_what_the_ledger_asks_of_its_kind(name: str) -> None:
    finding, ruling, due = ALONE[name]
    assert (finding.ruling, finding.due_at) == (ruling, due)
    assert (finding.source, finding.outcome) == (Source.POLICY, None)
    assert finding.at(7).seq == 7
    assert finding.at(7).ruling is ruling


def test_a_wait_is_one_wait_for_each_rule_and_end() -> None:
    ends = [("quiet", at(9)), ("cap", at(9)), ("quiet", at(10)), ("quiet", at(9))]
    assert len({decisions.wait(rule, end).identity for rule, end in ends}) == 3


def test_a_release_says_who_released() -> None:
    person = decisions.release(2, identity="release/3", now=NOW, actor="clerk")
    nobody = decisions.release(None, identity="release/3", now=NOW, actor=None)
    assert (person.source, person.rule, person.actor) == (
        Source.OPERATOR,
        "operator.resumed",
        "clerk",
    )
    assert (nobody.source, nobody.rule, nobody.actor) == (Source.POLICY, "policy.cause-gone", None)
    assert (person.authorises, nobody.authorises) == (2, None)


def test_a_result_is_one_result_for_each_attempt() -> None:
    assert refused(1).identity == accepted(1).identity != accepted(2).identity
    assert lost_in_lease(1).identity not in {accepted(1).identity, accepted(2).identity}
    assert lost_in_lease(1).outcome is Outcome.AMBIGUOUS


def test_the_stage_of_a_result_names_what_broke() -> None:
    assert (accepted(1).stage, unanswered(1).stage) == ("dot", "dot/timeout")


def test_only_a_refusal_has_a_scope_suppresses_or_opts_out() -> None:
    meaning = Classification(
        rule="test.liar",
        outcome=Outcome.ACCEPTED,
        scope=Scope.CHANNEL,
        suppress=Suppress.DESTINATION,
        opt_out=True,
    )
    evidence = Evidence(stage="dot", handed_over=True, answered=True)
    finding = result_of(1, evidence, meaning)
    assert (finding.scope, finding.suppress) == (None, Suppress.NONE)
    assert finding.spent
    assert not finding.opt_out
    assert refused(1, final=True, opt_out=True).opt_out


def test_only_a_permanent_fault_of_ours_is_a_configuration_fault() -> None:
    def meaning(outcome: Outcome, scope: Scope) -> Classification:
        return Classification(rule="r", outcome=outcome, scope=scope)

    assert meaning(Outcome.PERMANENT, Scope.SENDER).configuration_fault
    assert meaning(Outcome.PERMANENT, Scope.CHANNEL).configuration_fault
    assert not meaning(Outcome.PERMANENT, Scope.MESSAGE).configuration_fault
    assert not meaning(Outcome.TRANSIENT, Scope.CHANNEL).configuration_fault


HOSTILE = "a\0b\ud800c"


@pytest.mark.parametrize(
    "name", ["identity", "cause", "stage", "enhanced_code", "provider_reference", "actor", "rule"]
)
def test_text_no_database_can_hold_is_made_storable(name: str) -> None:
    hostile: dict[str, Any] = {name: HOSTILE}
    clean = storable(replace(accepted(1), **hostile))
    assert getattr(clean, name) == "a\N{REPLACEMENT CHARACTER}b?c"


def test_what_can_be_stored_is_not_touched() -> None:
    finding: Finding = replace(accepted(1), literal=b"\0\xff", cause=None)
    assert storable(finding) == finding


@pytest.mark.parametrize(("code", "kept"), [(2**31, None), (-(2**40), None), (63016, 63016)])
def test_a_reply_code_beyond_any_integer_is_left_to_the_literal(
    code: int, kept: int | None
) -> None:
    assert storable(replace(accepted(1), reply_code=code)).reply_code == kept


def test_a_rule_without_a_name_gets_one() -> None:
    assert storable(replace(accepted(1), rule="")).rule == "unnamed"


@pytest.mark.parametrize("length", [500, 501])
def test_a_reference_that_no_index_takes_is_left_to_the_literal(length: int) -> None:
    reference = "\N{GRINNING FACE}" * length
    kept = storable(replace(accepted(1), provider_reference=reference)).provider_reference
    assert kept == (reference if length == 500 else None)
