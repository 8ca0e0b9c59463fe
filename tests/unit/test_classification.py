"""The rule engine: first match wins, and nothing wins against what can be true."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sendledger.ledger.classification import (
    REMEMBERED_MAX,
    Rule,
    RuleTable,
    agreed_enhanced,
    classify,
    sound,
)
from sendledger.ledger.evidence import Classification, Evidence
from sendledger.ledger.rule_table import parse_rules
from sendledger.ledger.words import Outcome, Scope, Suppress

SMTP = Path(__file__).parents[2] / "config/classification/smtp.yaml"
STAGES = ("connect", "tls", "greeting", "ehlo", "auth", "mail", "rcpt", "data", "dot", "request")


def answered(code: int | None, stage: str = "rcpt", **fields: Any) -> Evidence:
    given: dict[str, Any] = {"stage": stage, "handed_over": stage == "dot", "answered": True}
    return Evidence(**given | {"reply_code": code} | fields)


def rule(**fields: Any) -> Rule:
    return Rule(**{"id": "test.rule", "outcome": Outcome.PERMANENT} | fields)


@pytest.mark.parametrize(
    ("condition", "matching", "other"),
    [
        ({"stages": frozenset({"rcpt"})}, answered(550), answered(550, "dot")),
        ({"codes": ("550",)}, answered(550), answered(551)),
        ({"codes": ("55x",)}, answered(559), answered(540)),
        ({"codes": ("5xx",)}, answered(521), answered(421)),
        ({"codes": ("21610",)}, answered(21610), answered(2161)),
        ({"codes": ("5xx",)}, answered(550), answered(None)),
        (
            {"enhanced": ("5.7.x",)},
            answered(550, enhanced_code="5.7.26"),
            answered(550, enhanced_code="5.1.7"),
        ),
        ({"enhanced": ("x.2.2",)}, answered(452, enhanced_code="4.2.2"), answered(452)),
        (
            {"enhanced": ("5.1.1",)},
            answered(550, enhanced_code="5.1.1"),
            answered(550, enhanced_code="5.1.10"),
        ),
        (
            {"text": re.compile(rb"too many", re.IGNORECASE)},
            answered(450, literal=b"450 Too Many\r\n"),
            answered(450, literal=b"450 no\r\n"),
        ),
        (
            {"faults": frozenset({"tls"})},
            Evidence(stage="tls", handed_over=False, answered=False, fault="tls"),
            answered(454, "tls"),
        ),
        (
            {"facts": {"error": frozenset({"30006"})}},
            answered(200, facts={"error": "30006"}),
            answered(200),
        ),
    ],
)
def test_a_rule_matches_only_where_its_condition_holds(
    condition: dict[str, Any], matching: Evidence, other: Evidence
) -> None:
    assert rule(**condition).matches(matching)
    assert not rule(**condition).matches(other)


def test_all_conditions_of_a_rule_must_hold() -> None:
    both = rule(codes=("550",), stages=frozenset({"dot"}))
    assert not both.matches(answered(550, "rcpt"))
    assert not both.matches(answered(551, "dot"))
    assert both.matches(answered(550, "dot"))


def test_the_first_matching_rule_decides() -> None:
    rules = [rule(id="a", codes=("450",)), rule(id="b", codes=("5xx",)), rule(id="c")]
    found = classify(rules, answered(550))
    assert found is not None
    assert found.rule == "b"
    assert classify(rules[:1], answered(550)) is None


codes = st.sampled_from([None, 250, 354, 421, 450, 451, 452, 550, 552, 554, 556])
enhanced = st.sampled_from([None, "2.0.0", "4.2.2", "5.1.1", "5.7.1", "5.7.26", "nonsense"])
literals = st.sampled_from([b"", b"550 mailbox full\r\n", b"450 greylisted\r\n"])
read = st.builds(
    Evidence,
    stage=st.sampled_from(STAGES),
    handed_over=st.booleans(),
    answered=st.booleans(),
    literal=literals,
    reply_code=codes,
    enhanced_code=enhanced,
    fault=st.sampled_from([None, "closed", "tls", "too-large"]),
    facts=st.sampled_from([{}, {"error": "30006"}]),
)
SHIPPED = RuleTable(
    [
        *parse_rules(yaml.load(SMTP.read_text(), Loader=yaml.BaseLoader), SMTP.name),
        rule(id="facts", facts={"error": frozenset({"30006"})}),
    ]
)


@given(st.lists(read, min_size=1, max_size=5))
def test_a_table_says_what_its_rules_say_one_by_one(met: list[Evidence]) -> None:
    for evidence in met:
        assert SHIPPED.classify(evidence) == classify(SHIPPED.rules, evidence)


def test_a_table_remembers_only_so_many_codes_and_answers_all_the_same() -> None:
    table = RuleTable([rule(codes=("5xx",))])
    for code in range(REMEMBERED_MAX + 100):
        table.classify(answered(code))
    assert len(table._left) == REMEMBERED_MAX
    assert table.classify(answered(550)) == classify(table.rules, answered(550))
    assert table.classify(answered(5500)) is None


def test_an_address_in_the_reply_cannot_make_a_text_rule_match() -> None:
    text = rule(text=re.compile(rb"over quota|too-many", re.IGNORECASE))
    reply = b"550 <too-many@quota.example>: too-many@x.example unknown\r\n"
    assert not text.matches(answered(550, literal=reply))


def test_an_enhanced_code_of_another_class_counts_as_absent() -> None:
    assert agreed_enhanced(answered(450, enhanced_code="5.1.1")) is None
    assert agreed_enhanced(answered(550, enhanced_code="5.1.1")) == "5.1.1"
    assert agreed_enhanced(answered(None, enhanced_code="5.1.1")) == "5.1.1"
    assert not rule(enhanced=("5.1.1",)).matches(answered(450, enhanced_code="5.1.1"))


# --- sound ------------------------------------------------------------------------------------------

verdicts = st.one_of(
    st.none(),
    st.builds(
        Classification,
        rule=st.just("any.rule"),
        outcome=st.sampled_from(Outcome),
        scope=st.sampled_from(Scope),
    ),
)
evidences = st.builds(
    Evidence,
    stage=st.sampled_from(STAGES),
    handed_over=st.booleans(),
    answered=st.booleans(),
    reply_code=st.one_of(st.none(), st.integers(100, 999)),
    enhanced_code=st.sampled_from([None, "5.1.1", "2.0.0", "4.7.1"]),
    fault=st.sampled_from([None, "closed", "timeout"]),
)


@given(verdicts, evidences)
def test_no_verdict_talks_an_unanswered_handoff_away(
    verdict: Classification | None, evidence: Evidence
) -> None:
    settled = sound(verdict, evidence)
    if evidence.handed_over and not evidence.answered:
        assert settled == Classification(rule="handoff.unanswered", outcome=Outcome.AMBIGUOUS)


@given(verdicts, evidences)
def test_what_was_never_handed_over_is_neither_accepted_nor_in_doubt(
    verdict: Classification | None, evidence: Evidence
) -> None:
    if not evidence.handed_over:
        assert sound(verdict, evidence).outcome in {Outcome.TRANSIENT, Outcome.PERMANENT}


@given(verdicts, evidences, st.integers(200, 299))
def test_no_verdict_undoes_a_positive_final_reply(
    verdict: Classification | None, evidence: Evidence, code: int
) -> None:
    final = Evidence(stage=evidence.stage, handed_over=True, answered=True, reply_code=code)
    assert sound(verdict, final).outcome in {Outcome.ACCEPTED, Outcome.DELIVERED}


@given(verdicts, evidences)
def test_a_sound_verdict_stays_sound(verdict: Classification | None, evidence: Evidence) -> None:
    once = sound(verdict, evidence)
    assert sound(once, evidence) == once


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (answered(250, "dot"), ("default.2yz", Outcome.ACCEPTED, Scope.RECIPIENT)),
        (answered(450, "greeting"), ("default.4yz", Outcome.TRANSIENT, Scope.CHANNEL)),
        (answered(450, "mail"), ("default.4yz", Outcome.TRANSIENT, Scope.CHANNEL)),
        (answered(450, "rcpt"), ("default.4yz", Outcome.TRANSIENT, Scope.RECIPIENT)),
        (answered(450, "dot"), ("default.4yz", Outcome.TRANSIENT, Scope.MESSAGE)),
        (answered(550, "auth"), ("default.5yz", Outcome.PERMANENT, Scope.CHANNEL)),
        (answered(550, "mail"), ("default.5yz", Outcome.PERMANENT, Scope.SENDER)),
        (answered(550, "rcpt"), ("default.5yz", Outcome.PERMANENT, Scope.RECIPIENT)),
        (answered(550, "dot"), ("default.5yz", Outcome.PERMANENT, Scope.MESSAGE)),
        (answered(599, "request"), ("default.5yz", Outcome.PERMANENT, Scope.MESSAGE)),
        (answered(250, "rcpt"), ("default.broken", Outcome.TRANSIENT, Scope.CHANNEL)),
        (answered(354, "dot"), ("handoff.unreadable", Outcome.AMBIGUOUS, Scope.RECIPIENT)),
        (answered(None, "dot"), ("handoff.unreadable", Outcome.AMBIGUOUS, Scope.RECIPIENT)),
    ],
)
def test_without_a_verdict_class_and_stage_decide_and_nobody_is_suppressed(
    evidence: Evidence, expected: tuple[str, Outcome, Scope]
) -> None:
    found = sound(None, evidence)
    assert (found.rule, found.outcome, found.scope) == expected
    assert found.suppress is Suppress.NONE


def test_a_rule_may_call_an_answered_handoff_ambiguous() -> None:
    verdict = Classification(rule="http.5xx", outcome=Outcome.AMBIGUOUS)
    evidence = answered(503, "request", handed_over=True)
    assert sound(verdict, evidence) is verdict


# --- the table --------------------------------------------------------------------------------------


def test_a_table_is_read_with_every_condition_and_consequence() -> None:
    (found,) = parse_rules(
        {
            "rules": [
                {
                    "id": "x.full",
                    "stages": ["rcpt", "dot"],
                    "codes": ["55x"],
                    "enhanced": ["x.2.2"],
                    "text": "over quota",
                    "faults": "none",
                    "facts": {"error": ["1", "2"]},
                    "outcome": "transient",
                    "scope": "message",
                    "retry_floor": "1h",
                    "attempts_max": "2",
                }
            ]
        },
        "x.yaml",
    )
    assert found.stages == frozenset({"rcpt", "dot"})
    assert found.codes == ("55x",)
    assert found.enhanced == ("x.2.2",)
    assert found.text is not None
    assert found.text.search(b"OVER QUOTA")
    assert found.faults == frozenset({"none"})
    assert found.facts == {"error": {"1", "2"}}
    assert found.classification() == Classification(
        rule="x.full",
        outcome=Outcome.TRANSIENT,
        scope=Scope.MESSAGE,
        retry_floor=timedelta(hours=1),
        attempts_max=2,
    )


def test_a_suppressing_opt_out_is_read() -> None:
    entry = {"id": "x", "codes": ["21610"], "outcome": "permanent", "suppress": "pair"}
    (found,) = parse_rules({"rules": [entry | {"opt_out": "true"}]}, "x.yaml")
    assert (found.suppress, found.opt_out) == (Suppress.PAIR, True)


OK = {"id": "x.y", "codes": ["550"], "outcome": "permanent"}


@pytest.mark.parametrize(
    ("document", "named"),
    [
        (None, "x.yaml: expected exactly one key"),
        ({"rules": [], "more": []}, "x.yaml: expected exactly one key"),
        ({"rules": {}}, "x.yaml: rules must be a list"),
        ({"rules": ["x"]}, "x.yaml: rule 1: expected a mapping"),
        ({"rules": [{"outcome": "permanent"}]}, "x.yaml: rule 1: id is missing"),
        ({"rules": [OK | {"id": "X Y"}]}, "x.yaml: rule 1: id: got 'X Y'"),
        ({"rules": [OK, OK]}, "x.yaml: rule x.y: the id is used twice"),
        ({"rules": [OK | {"code": "550"}]}, "x.yaml: rule x.y: code: unknown key"),
        ({"rules": [{"id": "x.y", "codes": ["550"]}]}, "rule x.y: outcome: missing"),
        ({"rules": [OK | {"outcome": "permanant"}]}, "rule x.y: outcome: got 'permanant'"),
        ({"rules": [OK | {"scope": "all"}]}, "rule x.y: scope: got 'all'"),
        ({"rules": [{"id": "x.y", "outcome": "permanent"}]}, "without any condition"),
        ({"rules": [OK | {"codes": []}]}, "rule x.y: codes: the list is empty"),
        ({"rules": [OK | {"codes": ["5?0"]}]}, "rule x.y: codes: got '5?0'"),
        ({"rules": [OK | {"codes": [550]}]}, "rule x.y: codes: expected text"),
        ({"rules": [OK | {"enhanced": ["3.1.1"]}]}, "rule x.y: enhanced: got '3.1.1'"),
        ({"rules": [OK | {"text": "("}]}, "rule x.y: text: not a regular expression"),
        ({"rules": [OK | {"stages": ["a b"]}]}, "rule x.y: stages: got 'a b'"),
        ({"rules": [OK | {"facts": "x"}]}, "rule x.y: facts: expected a mapping"),
        ({"rules": [OK | {"retry_floor": "5m"}]}, "rule x.y: retry_floor: only a transient"),
        (
            {"rules": [OK | {"outcome": "transient", "retry_floor": "soon"}]},
            "rule x.y: retry_floor: ",
        ),
        ({"rules": [OK | {"attempts_max": "2"}]}, "rule x.y: attempts_max: only a transient"),
        (
            {"rules": [OK | {"outcome": "transient", "scope": "sender", "attempts_max": "2"}]},
            "rule x.y: attempts_max: only a transient refusal that is spent",
        ),
        (
            {"rules": [OK | {"outcome": "transient", "attempts_max": "0"}]},
            "rule x.y: attempts_max: got '0'",
        ),
        ({"rules": [OK | {"opt_out": "yes"}]}, "rule x.y: opt_out: got 'yes'"),
        (
            {"rules": [OK | {"scope": "message", "suppress": "destination"}]},
            "rule x.y: suppress: only a permanent refusal of the recipient",
        ),
        (
            {"rules": [OK | {"outcome": "transient", "opt_out": "true"}]},
            "rule x.y: opt_out: only a permanent refusal of the recipient",
        ),
    ],
)
def test_a_mistake_in_a_table_is_named_by_rule_and_key(document: Any, named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        parse_rules(document, "x.yaml")
