"""The shipped Twilio table says of each code and status what its documentation means by it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sendledger.plugin import Classification, Evidence, Outcome, Scope, Suppress
from sendledger_twilio.answer import evidence_of, later_evidence, not_begun
from sms_kit import NOW, RULES, SID, judge, judge_later

A, D = Outcome.ACCEPTED, Outcome.DELIVERED
T, P = Outcome.TRANSIENT, Outcome.PERMANENT
RECIPIENT, MESSAGE, SENDER, CHANNEL = Scope.RECIPIENT, Scope.MESSAGE, Scope.SENDER, Scope.CHANNEL


def refusal(code: int, status: int = 400) -> Evidence:
    return evidence_of(status, b'{"code": %d}' % code, now=NOW)


def receipt(status: str, error: int | None = None) -> Evidence:
    facts = {"status": status} | ({} if error is None else {"error": str(error)})
    return later_evidence("receipt", SID, facts, b"")


CODES = [
    # code, outcome, scope, floor in minutes
    (20003, P, CHANNEL, None),
    (20005, P, CHANNEL, None),
    (21408, P, CHANNEL, None),
    (21608, P, CHANNEL, None),
    (21609, P, CHANNEL, None),
    (30002, P, CHANNEL, None),
    (30037, P, CHANNEL, None),
    (21730, T, CHANNEL, 5),
    (21212, P, SENDER, None),
    (21606, P, SENDER, None),
    (21660, P, SENDER, None),
    (21703, P, SENDER, None),
    (30032, P, SENDER, None),
    (30034, P, SENDER, None),
    (21611, T, SENDER, 10),
    (30001, T, SENDER, 10),
    (30022, T, SENDER, 10),
    (30023, T, SENDER, 60),
    (21211, P, RECIPIENT, None),
    (21265, P, RECIPIENT, None),
    (21610, P, RECIPIENT, None),
    (21612, P, RECIPIENT, None),
    (21614, P, RECIPIENT, None),
    (21635, P, RECIPIENT, None),
    (30003, T, RECIPIENT, 15),
    (30004, P, RECIPIENT, None),
    (30005, P, RECIPIENT, None),
    (30006, P, RECIPIENT, None),
    (30008, T, RECIPIENT, 15),
    (30017, T, RECIPIENT, 15),
    (30036, T, RECIPIENT, None),
    (21617, P, MESSAGE, None),
    (30007, P, MESSAGE, None),
    (30010, P, MESSAGE, None),
]


@pytest.mark.parametrize(("code", "outcome", "scope", "floor_min"), CODES)
def test_a_code_means_the_same_at_once_and_later(
    code: int, outcome: Outcome, scope: Scope, floor_min: int | None
) -> None:
    floor = None if floor_min is None else timedelta(minutes=floor_min)
    at_once, later = judge(refusal(code)), judge_later(receipt("undelivered", code))
    assert (at_once.outcome, at_once.scope, at_once.retry_floor) == (outcome, scope, floor)
    assert later == at_once


def test_every_code_stands_in_one_rule_only() -> None:
    codes = [code for rule in RULES for code in rule.codes]
    assert len(codes) == len(set(codes))
    assert {str(code) for code, *_ in CODES} <= set(codes)


def test_only_the_recipients_own_stop_suppresses_and_only_with_this_sender() -> None:
    suppressing = [rule.id for rule in RULES if rule.suppress is not Suppress.NONE or rule.opt_out]
    assert suppressing == ["twilio.opted-out"]
    found = judge(refusal(21610))
    assert (found.suppress, found.opt_out) == (Suppress.PAIR, True)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("body", [b"", b"<html>", b'{"code": 20003}'])
def test_credentials_that_are_refused_pause_the_channel(status: int, body: bytes) -> None:
    found = judge(evidence_of(status, body, now=NOW))
    assert (found.rule, found.scope) == ("twilio.account-refused", CHANNEL)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("accepted", A),
        ("scheduled", A),
        ("queued", A),
        ("sending", A),
        ("sent", A),
        ("delivered", D),
        ("read", D),
        ("canceled", P),
        ("partially_delivered", A),
        ("teleported", A),
    ],
)
def test_a_status_means(status: str, outcome: Outcome) -> None:
    assert judge_later(receipt(status)).outcome is outcome
    found = later_evidence("look-up", SID, {"status": status}, b"")
    assert judge_later(found) == judge_later(receipt(status))


@pytest.mark.parametrize("status", ["failed", "undelivered"])
@pytest.mark.parametrize("error", [None, 30008, 31999])
def test_an_unknown_failure_is_tried_once_more_at_most(status: str, error: int | None) -> None:
    found = judge_later(receipt(status, error))
    assert (found.outcome, found.scope, found.attempts_max) == (T, RECIPIENT, 2)


@pytest.mark.parametrize(
    ("stage", "fault"),
    [
        ("connect", "refused"),
        ("connect", "dns"),
        ("connect", "timeout"),
        ("connect", "closed"),
        ("tls", "tls"),
    ],
)
def test_an_api_that_is_not_there_is_the_channels_outage(stage: str, fault: str) -> None:
    found = judge(not_begun(stage, fault))
    assert found == Classification(rule="twilio.unreachable", outcome=T, scope=CHANNEL)


def test_what_could_not_leave_in_time_is_left_to_its_deadline() -> None:
    found = judge(not_begun("request", "too-late"))
    assert (found.rule, found.outcome, found.scope) == ("twilio.too-late", T, RECIPIENT)
