"""Nothing a case expects is passed over: each key is claimed by a test, or answered otherwise for a reason."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent
KINDS = (
    "smtp_transcript", "config_yaml", "destination_email", "injection", "plugin", "queue_db",
    "twilio_submit", "twilio_callback", "destination_phone", "sms_body", "callback_security",
)  # fmt: skip
ELSEWHERE = {"plg-01", "sec-04"}
"""Cases that expect more than this version promises: a strict mode, and calls to others' addresses."""

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in yaml.safe_load((HERE / "inputs/cases.yaml").read_text())["cases"]
    if case["kind"] in KINDS and case["id"] not in ELSEWHERE
}
CLAIMS: dict[str, dict[str, dict[str, list[str]]]] = yaml.safe_load(
    (HERE / "claims.yaml").read_text()
)
ALTERNATIVES: dict[str, dict[str, dict[str, str]]] = yaml.safe_load(
    (HERE / "alternatives.yaml").read_text()
)


def claims() -> Iterator[tuple[str, str, str, str]]:
    """Yield file, test, case and key of each claim."""
    for file, tests in CLAIMS.items():
        for test, cases in tests.items():
            for case, keys in cases.items():
                for key in keys:
                    yield file, test, case, key


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_key_is_claimed_by_a_test_or_answered_in_another_way(name: str) -> None:
    claimed = {key for _, _, case, key in claims() if case == name}
    assert claimed | set(ALTERNATIVES.get(name, {})) == set(CASES[name]["expected"])


def test_no_key_is_both_claimed_and_answered_in_another_way() -> None:
    assert [(case, key) for *_, case, key in claims() if key in ALTERNATIVES.get(case, {})] == []


def test_every_claim_is_about_a_case_of_the_corpus() -> None:
    assert {case for *_, case, _ in claims()} | ALTERNATIVES.keys() == CASES.keys()


@pytest.mark.parametrize("file", sorted(CLAIMS))
def test_every_test_that_claims_is_there_and_speaks_of_its_cases(file: str) -> None:
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    bodies = {
        node.name: ast.unparse(node)
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert set(CLAIMS[file]) <= bodies.keys()
    for test, cases in CLAIMS[file].items():
        for case in cases:
            named = case in bodies[test] or case.replace("-", "_") in test
            assert named or "CASES" in bodies[test], f"{test} says nothing of {case}"


def test_every_other_answer_rests_on_a_sentence_of_its_case() -> None:
    reasons = defaultdict(list)
    for name, keys in ALTERNATIVES.items():
        case = CASES[name]
        words = " ".join(
            [case["why"], case.get("notes", ""), yaml.safe_dump(case["expected"], width=10**6)]
        )
        for key, other in keys.items():
            assert other["answer"]
            if other["because"] not in words:
                reasons[name].append(key)
    assert reasons == {}
