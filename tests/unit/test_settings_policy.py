"""The policy: its defaults, its scale, and a revision that changes when anything that decides does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendledger.ledger.words import Outcome, Scope
from sendledger.plugin import Secret
from sendledger.settings.load import load_policy
from sendledger.settings.policy import PolicySettings, policy_revision
from sendledger.settings.problems import SettingsError

RULE = """\
classification:
  smtp:
    - id: site.maintenance
      stages: [greeting]
      text: maintenance
      outcome: transient
      scope: channel
      retry_floor: 10m
"""


def policy(folder: Path, text: str) -> PolicySettings:
    file = folder / "policy.yaml"
    file.write_text(text, encoding="utf-8")
    return load_policy(file)


def test_the_defaults_are_one_submission_and_five_retries() -> None:
    found = load_policy(None)
    minutes = [delay / timedelta(minutes=1) for delay in found.retry.delays]
    assert minutes == [0.5, 2, 8, 30, 60]
    assert (found.retry.jitter, found.retry.attempts_hard_max) == (0.25, 50)
    assert found.retry.give_up_after is None
    assert (found.unknown.wait, found.unknown.then) == (timedelta(hours=1), "hold")
    assert (found.back_off.intents, found.back_off.task_after) == (3, timedelta(minutes=30))
    assert (found.claims_max, found.scale) == (20, 1)


def test_a_channel_is_decided_about_in_the_ledgers_own_form(tmp_path: Path) -> None:
    found = policy(tmp_path, "evidence: {window: {sms: 2d}}\nretry: {delays: [1m], jitter: 0}\n")
    email = found.for_channel("email", window=timedelta(days=5), revision="r1")
    assert (email.evidence_wait, email.ceiling, email.revision) == (timedelta(days=5), 2, "r1")
    assert found.for_channel("sms", window=timedelta(days=5), revision="r1").evidence_wait.days == 2


def test_the_scale_divides_every_duration_once(tmp_path: Path) -> None:
    found = policy(
        tmp_path,
        f"scale: 60\nevidence: {{window: {{sms: 2h}}}}\nretry: {{give_up_after: 1d}}\n{RULE}",
    )
    assert found.retry.delays[0] == timedelta(milliseconds=500)
    assert found.retry.give_up_after == timedelta(minutes=24)
    assert found.unknown.wait == timedelta(minutes=1)
    assert found.evidence.window == {"sms": timedelta(minutes=2)}
    assert found.grace == timedelta(seconds=5)
    assert found.classification["smtp"][0].retry_floor == timedelta(seconds=10)
    assert found.retry.jitter == 0.25
    email = found.for_channel("email", window=timedelta(hours=1), revision="r1")
    assert (email.evidence_wait, email.scale) == (timedelta(minutes=1), 60)


def test_classification_rules_are_read_as_the_shipped_tables_are(tmp_path: Path) -> None:
    [rule] = policy(tmp_path, RULE).classification["smtp"]
    assert (rule.id, rule.outcome, rule.scope) == (
        "site.maintenance",
        Outcome.TRANSIENT,
        Scope.CHANNEL,
    )


TWINS = """\
classification:
  smtp:
    - {id: x.y, text: this, outcome: transient, scope: recipient}
    - {id: x.y, text: that, outcome: transient, scope: recipient}
"""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("retry: {delays: []}", "retry.delays (line 1): "),
        ("retry: {delays: [1m, soon]}", "retry.delays.1 (line 1): expected a duration such as"),
        ("retry: {jitter: -0.1}", "retry.jitter (line 1): expected a number of at least 0"),
        (
            "retry: {delays: [1s, 1s], attempts_hard_max: 2}",
            "retry (line 1): attempts_hard_max leaves no room",
        ),
        ("unknown: {then: guess}", "unknown.then (line 1): expected hold or retry"),
        ("scale: 0.5", "scale (line 1): expected a number of at least 1"),
        (
            "back_off: {probe: 10m}",
            "back_off (line 1): probe_max must be at least as long as probe",
        ),
        ("classification: {smtp: [{id: x.y}]}", "classification.smtp.0 (line 1): "),
        ("classification: {smtp: x}", "classification.smtp (line 1): expected a list"),
        (TWINS, "classification.smtp (line 2): two rules have the same id; rename one of them"),
        ("classification: {smtp: {}}", "classification.smtp (line 1): "),
    ],
)
def test_a_policy_that_cannot_be_followed_is_refused(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        policy(tmp_path, text)
    [found] = caught.value.problems
    assert found.startswith(problem)


# --- revision --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    pattern: re.Pattern[bytes]
    scope: Scope


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.timedeltas())
PARTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), PARTS, max_size=4))
def test_the_revision_is_short_and_does_not_depend_on_order(parts: dict[str, Any]) -> None:
    revision = policy_revision(parts)
    assert re.fullmatch("[0-9a-f]{12}", revision)
    assert policy_revision(dict(reversed(parts.items()))) == revision


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PolicySettings(), PolicySettings(claims_max=21)),
        (Table(re.compile(b"a"), Scope.CHANNEL), Table(re.compile(b"b"), Scope.CHANNEL)),
        (
            Table(re.compile(b"a"), Scope.CHANNEL),
            Table(re.compile(b"a", re.IGNORECASE), Scope.CHANNEL),
        ),
        (Table(re.compile(b"a"), Scope.CHANNEL), Table(re.compile(b"a"), Scope.SENDER)),
        (timedelta(seconds=1), timedelta(microseconds=1_000_001)),
        (["a", "b"], ["b", "a"]),
        ({"a": None}, {}),
        ("1", 1),
        (True, "true"),
    ],
)
def test_whatever_decides_differently_has_another_revision(one: object, other: object) -> None:
    assert policy_revision({"part": one}) != policy_revision({"part": other})


def test_sets_have_no_order_and_a_rotated_secret_is_no_new_policy() -> None:
    assert policy_revision({"s": frozenset("abc")}) == policy_revision({"s": frozenset("cba")})
    assert policy_revision({"s": Secret("old")}) == policy_revision({"s": Secret("new")})


def test_defaults_that_were_written_out_are_the_same_policy(tmp_path: Path) -> None:
    written = policy(tmp_path, "claims_max: 20\nretry: {delays: [30s, 120s, 8m, 30m, 60m]}\n")
    assert policy_revision({"policy": written}) == policy_revision({"policy": load_policy(None)})


@pytest.mark.parametrize("part", [object(), len, {1: "a"}])
def test_what_has_no_canonical_form_is_refused(part: object) -> None:
    with pytest.raises(TypeError, match="a policy revision cannot cover"):
        policy_revision({"part": part})
