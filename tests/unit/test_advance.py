"""One step of one intent: what is appended, once, and the decision that goes with a refusal."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from findings import accepted, delivered, proposing, receipt, refused
from fixed_policy import POLICY
from fold_rows import T0, ask, at, hold, note, numbered, opened, retry, ruled
from fold_rows import accepted as accepted_row
from fold_rows import refused as refused_row
from fold_rows import unknown as unknown_row
from ledger_rig import scope_keys
from sendledger.journal.advance import Advance, Entry, Standing, advance, follow, standing_of
from sendledger.journal.effects import effects_of
from sendledger.journal.scopes import released
from sendledger.ledger.decisions import ATTEMPTS_MAX
from sendledger.ledger.findings import Finding, lost_in_lease
from sendledger.ledger.rows import Row
from sendledger.ledger.words import Awaits, Outcome, Ruling, Scope, Status, Suppress
from sendledger.store.ledger_rows import Locked
from sendledger.work.proposals import lost, wait_ended, when_waiting

LOCKED = Locked(
    intent_id=4,
    seq=0,
    channel="mail",
    lane=1,
    batch_id=9,
    intent_key=b"\xab" * 16,
    eligible_at=T0,
    not_after=None,
    provenance="native",
    destination_fingerprint=bytes(16),
    scope_keys=scope_keys(),
    lease_ended=False,
    now=at(60),
)
SUBMITTING: list[Row] = [opened(1)]
UNKNOWN: list[Row] = [opened(1), unknown_row(1)]
SUBMITTED: list[Row] = [opened(1), accepted_row(1)]


def standing(rows: list[Row], **locked: Any) -> Standing:
    return standing_of(replace(LOCKED, **locked), numbered(rows))


def step(
    where: Standing, *findings: Finding, known: set[tuple[str, str]] | None = None, **entry: Any
) -> Advance:
    wanted = Entry(intent_id=4, propose=proposing(*findings), **entry)
    return advance(where, wanted, POLICY, known or set())


def told(done: Advance) -> list[str]:
    return [finding.ruling or finding.outcome or "note" for _, finding in done.added]


# --- appending -------------------------------------------------------------------------------


def test_an_acceptance_is_appended_at_the_next_seq() -> None:
    done = step(standing(SUBMITTING), accepted(1))
    assert [seq for seq, _ in done.added] == [2]
    assert (done.before.status, done.after.status) == (Status.SUBMITTING, Status.SUBMITTED)
    assert [attempt.number for attempt in done.attempts] == [1]


def test_a_transient_refusal_is_appended_with_exactly_one_decision() -> None:
    done = step(standing(SUBMITTING), refused(1))
    assert told(done) == ["transient", "retry"]
    assert (done.after.awaits, done.after.decision_seq) == (Awaits.RETRY, 3)


def test_chance_and_floor_of_the_entry_reach_the_decision() -> None:
    done = step(standing(SUBMITTING), refused(1), floor=timedelta(minutes=10), chance=0.5)
    assert done.after.due_at == LOCKED.now + timedelta(minutes=11)


def test_a_permanent_refusal_needs_no_decision() -> None:
    done = step(standing(SUBMITTING), refused(1, final=True))
    assert (told(done), done.after.status) == (["permanent"], Status.FAILED)


def test_a_refusal_beside_an_unknown_attempt_decides_nothing() -> None:
    rows = [*UNKNOWN, retry(2, at(20)), opened(2)]
    done = step(standing(rows), refused(2))
    assert (told(done), done.after.status) == (["transient"], Status.AMBIGUOUS)


def test_the_refusal_of_the_last_unknown_attempt_decides() -> None:
    rows = [*UNKNOWN, retry(2, at(20)), opened(2), refused_row(2)]
    done = step(standing(rows), receipt(refused(1)))
    assert told(done) == ["transient", "retry"]
    assert done.added[1][1].authorises == 3


def test_a_refusal_of_a_settled_row_asks() -> None:
    rows = [*SUBMITTED, ruled(Ruling.CLOSE, attempt=1)]
    done = step(standing(rows), receipt(refused(1)))
    assert (told(done), done.after.awaits) == (["transient", "ask"], Awaits.DECISION)


def test_evidence_that_stands_already_changes_nothing() -> None:
    known = {("channel", "result/1")}
    done = step(standing(SUBMITTING), accepted(1), known=known)
    assert done.added == ()
    assert done.after == done.before


def test_evidence_that_comes_twice_in_one_group_is_taken_once() -> None:
    first = step(standing(SUBMITTING), accepted(1), accepted(1))
    assert len(first.added) == 1
    second = follow(first, standing(SUBMITTING))
    assert second.delivery == first.after
    again = step(second, delivered(1))
    assert [seq for seq, _ in again.added] == [3]
    assert again.after.status is Status.DELIVERED


def test_two_config_faults_of_one_row_are_two_holds() -> None:
    """A row held before its second attempt must be held again when that one meets a fault of ours."""
    rows: list[Row] = [hold(at(1)), ruled(Ruling.RELEASE, at(2)), opened(1)]
    fault = refused(1, final=True, scope=Scope.SENDER)
    known = {("policy", f"hold/{seq}") for seq in range(3)}
    done = step(standing(rows), fault, known=known)
    assert (told(done), done.after.awaits) == (["permanent", "hold"], Awaits.RELEASE)


def test_text_no_database_can_hold_is_made_storable_on_the_way_in() -> None:
    done = step(standing(SUBMITTING), accepted(1, reference="queue\0id"))
    assert "\0" not in (done.added[0][1].provider_reference or "")


# --- proposals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "expected"),
    [([], 1), ([opened(1), refused_row(1), retry(2, at(15))], 1), (SUBMITTING, 0), (SUBMITTED, 0)],
    ids=["planned", "deferred", "submitting", "submitted"],
)
def test_a_verdict_is_only_for_a_row_that_waits(rows: list[Row], expected: int) -> None:
    assert len(when_waiting(accepted(1))(standing(rows))) == expected


@pytest.mark.parametrize(
    ("minutes", "lease_ended", "expected"),
    [(10.5, False, 0), (10.5, True, 1), (12, False, 1)],
    ids=["running", "lease-ended", "overdue"],
)
def test_only_what_nobody_works_at_any_more_is_lost(
    minutes: float, lease_ended: bool, expected: int
) -> None:
    where = standing(SUBMITTING, now=at(minutes), lease_ended=lease_ended)
    assert list(lost(where)) == [lost_in_lease(1)] * expected


def test_what_has_its_result_is_never_lost() -> None:
    assert not lost(standing(SUBMITTED, lease_ended=True))


def test_an_unknown_handoff_is_put_to_a_person_when_its_wait_is_over() -> None:
    propose = wait_ended(POLICY)
    assert not propose(standing(UNKNOWN, now=at(109)))
    [asked] = propose(standing(UNKNOWN, now=at(110)))
    assert (asked.ruling, asked.attempt) == (Ruling.ASK, 1)


def test_an_unknown_handoff_is_tried_again_only_where_the_policy_says_so() -> None:
    propose = wait_ended(replace(POLICY, unknown_then="retry"))
    [again] = propose(standing(UNKNOWN, now=at(110)))
    assert (again.ruling, again.authorises, again.rule) == (
        Ruling.RETRY,
        2,
        "policy.retry-unknown",
    )


@pytest.mark.parametrize(
    ("rows", "locked"),
    [
        (UNKNOWN, {"not_after": at(110)}),
        ([*UNKNOWN, ruled(Ruling.SUPPRESS)], {}),
        ([opened(1), opened(2), opened(3), opened(4), opened(5), unknown_row(5)], {}),
    ],
    ids=["past-not-after", "barred", "hard-max"],
)
def test_an_unknown_handoff_that_may_not_go_again_is_put_to_a_person(
    rows: list[Row], locked: dict[str, Any]
) -> None:
    propose = wait_ended(replace(POLICY, unknown_then="retry"))
    [asked] = propose(standing(rows, now=at(300), **locked))
    assert asked.ruling is Ruling.ASK


def test_silence_after_acceptance_is_settled_when_the_last_window_has_ended() -> None:
    propose = wait_ended(POLICY)
    assert not propose(standing(SUBMITTED, now=at(2009)))
    [closed] = propose(standing(SUBMITTED, now=at(2010)))
    assert (closed.ruling, closed.rule) == (Ruling.CLOSE, "evidence.window-closed")


def test_a_wait_that_evidence_extended_ends_no_sooner() -> None:
    rows = [*SUBMITTED, accepted_row(1, until=at(5000))]
    assert not wait_ended(POLICY)(standing(rows, now=at(4999)))


@pytest.mark.parametrize("rows", [[], SUBMITTING, [*UNKNOWN, ask(1, at(120))]])
def test_a_row_that_waits_for_no_evidence_ends_no_wait(rows: list[Row]) -> None:
    assert not wait_ended(POLICY)(standing(rows, now=at(9000)))


def test_a_release_of_a_refused_row_authorises_its_next_attempt() -> None:
    held = standing([opened(1), refused_row(1), hold(at(12))])
    [finding] = released("clerk")(held)
    assert (finding.ruling, finding.authorises) == (Ruling.RELEASE, 2)
    assert step(held, finding).after.awaits is Awaits.RETRY


def test_a_release_of_a_planned_row_authorises_nothing() -> None:
    [finding] = released(None)(standing([hold(at(5))]))
    assert finding.authorises is None


def test_what_is_not_held_is_not_released() -> None:
    assert not released("clerk")(standing([]))


def test_a_row_that_had_every_attempt_the_ledger_admits_stays_held() -> None:
    attempts: list[Row] = [opened(number) for number in range(1, ATTEMPTS_MAX + 1)]
    rows = [*attempts, *(refused_row(n) for n in range(1, ATTEMPTS_MAX + 1)), hold(at(900))]
    where = standing(rows)
    assert where.delivery.awaits is Awaits.RELEASE
    assert not released("clerk")(where)


def test_standing_lists_attempts_by_what_is_known_of_them() -> None:
    rows = [*UNKNOWN, retry(2, at(20)), opened(2), accepted_row(2), note(1)]
    where = standing(rows)
    assert (where.unknown_attempts(), where.accepted_attempts()) == ([1], [2])
    assert not where.barred


# --- side effects ----------------------------------------------------------------------------


def effects(rows: list[Row], *findings: Finding) -> tuple[list[str], list[str], list[str]]:
    found = effects_of([step(standing(rows), *findings)], configuration="c1")
    return (
        [f"{task.kind} {task.cause} {task.scope_key}" for task in found.tasks],
        [row.scope_key for row in found.suppressions],
        [pause.scope_key for pause in found.pauses],
    )


def test_a_refusal_suppresses_nobody_unless_its_rule_says_so() -> None:
    assert effects(SUBMITTING, refused(1, final=True)) == (["failed test.refused batch:9"], [], [])


@pytest.mark.parametrize(
    ("suppress", "scope_key"),
    [(Suppress.DESTINATION, "channel:mail"), (Suppress.PAIR, "sender:mail/office")],
)
def test_a_rule_says_whom_its_refusal_suppresses(suppress: Suppress, scope_key: str) -> None:
    _, suppressed, _ = effects(SUBMITTING, refused(1, final=True, suppress=suppress))
    assert suppressed == [scope_key]


def test_an_opt_out_needs_no_person() -> None:
    opted_out = refused(1, final=True, opt_out=True, suppress=Suppress.PAIR)
    assert effects(SUBMITTING, opted_out) == ([], ["sender:mail/office"], [])


@pytest.mark.parametrize(
    ("scope", "scope_key"), [(Scope.SENDER, "sender:mail/office"), (Scope.CHANNEL, "channel:mail")]
)
def test_a_configuration_fault_pauses_what_is_at_fault(scope: Scope, scope_key: str) -> None:
    fault = refused(1, final=True, scope=scope)
    assert effects(SUBMITTING, fault) == ([f"paused test.refused {scope_key}"], [], [scope_key])


def test_exhaustion_is_the_cause_of_its_task() -> None:
    rows: list[Row] = [opened(1), opened(2), opened(3), refused_row(1), refused_row(2)]
    tasks, _, _ = effects(rows, refused(3))
    assert tasks == ["failed policy.exhausted batch:9"]


def test_a_contradiction_is_a_task_of_its_intent() -> None:
    rows: list[Row] = [opened(1), refused_row(1, final=True)]
    tasks, _, _ = effects(rows, delivered(1), delivered(1, identity="event-2"))
    assert tasks == [f"contradicted default.2yz intent:{LOCKED.intent_key.hex()}"]


def test_what_a_person_stopped_needs_no_person() -> None:
    stop = Finding(
        source=delivered().source, rule="operator.stop", identity="stop", ruling=Ruling.STOP
    )
    assert effects([], stop) == ([], [], [])


def test_many_rows_that_meet_one_fault_pause_once_and_in_one_order() -> None:
    faults = [
        step(standing(SUBMITTING), refused(1, final=True, scope=scope))
        for scope in (Scope.SENDER, Scope.CHANNEL, Scope.SENDER)
    ]
    found = effects_of(faults, configuration="c1")
    assert [pause.scope_key for pause in found.pauses] == ["channel:mail", "sender:mail/office"]
    assert Outcome.PERMANENT in {finding.outcome for done in faults for _, finding in done.added}
