"""The smtp_transcript cases on the wire: what the peer saw, what was read, and what it means by the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from sendledger.plugin import Classification, Evidence, Outcome, Scope, Suppress
from sendledger_sandbox import CaptureServer, read_journal
from smtp_kit import (
    INPUTS,
    PLEASANT,
    RULES,
    SCALED,
    both,
    channel_for,
    envelope,
    hand_over,
    judge,
)
from smtp_peer import ScriptedPeer

ALTERNATIVES = yaml.safe_load((Path(__file__).parent / "alternatives.yaml").read_text())
CASES = {
    case["id"]: case
    for case in yaml.safe_load((INPUTS / "cases.yaml").read_text())["cases"]
    if case["kind"] == "smtp_transcript"
}

# One test each, below: they need more than one submission.
SEVERAL = {"smtp-07", "smtp-08", "smtp-10"}

# What only the ledger can say; asserted where deliveries are.
OF_THE_LEDGER = {
    "projection",
    "automatic_resubmissions",
    "evidence_row_stored",
    "failed_recipients",
    "channel_paused",
    "operator_task",
}


@both
@pytest.mark.parametrize("name", sorted(CASES.keys() - SEVERAL))
async def test_the_transcript_means_what_the_case_expects(name: str, *, together: bool) -> None:
    case = CASES[name]
    evidence = await played(case["input"], together=together)
    for key, expected in case["expected"].items():
        if key not in OF_THE_LEDGER:
            CHECKS[key](evidence, judge(evidence), expected)


def mode(*, together: bool) -> str:
    """Return the setting; some transcripts offer pipelining themselves."""
    return "auto" if together else "off"


async def played(file: str, *, together: bool) -> Evidence:
    """Submit once to the peer of *file*; nothing may escape but evidence, and the script must be kept to."""
    async with ScriptedPeer.from_file(INPUTS / file, pipelining=together) as peer:
        channel = channel_for(peer, timeouts=SCALED, pipelining=mode(together=together))
        evidence = await hand_over(channel, envelope())
        await channel.aclose()
    assert peer.failures == []
    assert peer.connections == 1
    return evidence


def is_class(evidence: Evidence, found: Classification, expected: str) -> None:
    del evidence
    if expected == "config_error":
        assert found.configuration_fault
    else:
        assert found.outcome == expected
        assert not found.configuration_fault


def is_scope(evidence: Evidence, found: Classification, expected: str) -> None:
    del evidence
    assert found.scope == expected


def suppresses(evidence: Evidence, found: Classification, expected: str) -> None:
    del evidence
    assert found.suppress == expected


def is_ambiguous(evidence: Evidence, found: Classification, expected: bool) -> None:
    assert (found.outcome is Outcome.AMBIGUOUS) == expected
    assert evidence.handed_over == expected


def retries(evidence: Evidence, found: Classification, expected: Mapping[str, Any]) -> None:
    del evidence
    modes = {
        "auto": found.outcome is Outcome.TRANSIENT,
        "none": found.outcome is Outcome.PERMANENT and not found.configuration_fault,
        "hold": found.configuration_fault,
        "reconcile_first": found.outcome is Outcome.AMBIGUOUS,
    }
    assert modes[expected["mode"]]
    if "min_delay_s" in expected:
        assert found.retry_floor is not None
        assert found.retry_floor >= timedelta(seconds=expected["min_delay_s"])


def holds(evidence: Evidence, found: Classification, expected: Mapping[str, Any]) -> None:
    del found
    read = {
        "stage": evidence.stage,
        "reply_code": evidence.reply_code,
        "enhanced": evidence.enhanced_code,
        "queue_id": evidence.provider_reference,
    }
    assert {key: read[key] for key in expected} == expected


def names_its_rule(evidence: Evidence, found: Classification, expected: bool) -> None:
    del evidence
    assert (found.rule in {rule.id for rule in RULES}) == expected


def keeps_every_byte(evidence: Evidence, found: Classification, expected: bool) -> None:
    del found
    sent = bytes.fromhex("35353020352e312e3120d3c3bba7b2bbb4e6d4da0d0a")
    assert (evidence.literal == sent) == expected


def escapes_nothing(evidence: Evidence, found: Classification, expected: bool) -> None:
    # That there is evidence at all says that nothing was raised.
    del found
    assert evidence.answered
    assert not expected


CHECKS: Mapping[str, Callable[[Evidence, Classification, Any], None]] = {
    "class": is_class,
    "scope": is_scope,
    "suppress": suppresses,
    "ambiguous": is_ambiguous,
    "retry": retries,
    "evidence": holds,
    "rule_id_recorded": names_its_rule,
    "evidence_bytes_recoverable": keeps_every_byte,
    "exception_escapes": escapes_nothing,
}


async def test_smtp_07_two_recipients_are_two_transactions_with_a_result_each(
    tmp_path: Path,
) -> None:
    """One recipient per transaction, as ``why`` allows; the peer scripts by local part."""
    expected = CASES["smtp-07"]["expected"]["recipients"]
    journal = tmp_path / "accepted.jsonl"
    scripted = {
        "ok@example.com": "ok@example.com",
        "gone@example.com": "gone+rcpt-550-5.1.1@example.com",
    }
    async with CaptureServer(journal=journal) as server:
        channel = channel_for(server)
        for recipient, destination in scripted.items():
            found = judge(await hand_over(channel, envelope(destination)))
            assert found.outcome == expected[recipient]["class"]
            assert found.suppress == expected[recipient].get("suppress", Suppress.NONE)
        await channel.aclose()
        assert server.unexpected == []
    assert [entry.rcpt for entry in read_journal(journal)] == [("ok@example.com",)]
    assert "two transactions" in ALTERNATIVES["smtp-07"]["recipients"]["because"]


@both
async def test_smtp_08_the_next_attempt_after_greylisting_is_accepted(*, together: bool) -> None:
    case = CASES["smtp-08"]
    async with ScriptedPeer.from_file(INPUTS / case["input"], pipelining=together) as peer:
        # The second attempt comes minutes later: on another session.
        channel = channel_for(
            peer,
            timeouts=SCALED,
            messages_per_session_max="1",
            pipelining=mode(together=together),
        )
        first, second = [await hand_over(channel, envelope()) for _ in range(2)]
        await channel.aclose()
    assert peer.failures == []
    assert judge(first) == Classification(
        rule="smtp.greylisted",
        outcome=Outcome.TRANSIENT,
        scope=Scope.RECIPIENT,
        retry_floor=timedelta(seconds=case["expected"]["retry"]["min_delay_s"]),
        suppress=Suppress(case["expected"]["suppress"]),
    )
    assert judge(second).outcome is Outcome.ACCEPTED


@both
async def test_smtp_10_a_goodbye_on_an_idle_session_costs_a_connection_and_nothing_else(
    *, together: bool
) -> None:
    case = CASES["smtp-10"]
    async with ScriptedPeer.from_file(INPUTS / case["input"], pipelining=together) as peer:
        channel = channel_for(peer, timeouts=SCALED, pipelining=mode(together=together))
        await hand_over(channel, envelope())
        await peer.idled.wait()
        found = judge(await hand_over(channel, envelope()))
        await channel.aclose()
    assert found.outcome == case["expected"]["class"]
    assert peer.connections == case["expected"]["connections_opened"]
    assert len(peer.messages) == 2
    assert peer.failures == []


def test_every_case_of_this_kind_is_played_for_the_recipient_it_names() -> None:
    assert len(CASES) == 12
    for name in CASES.keys() - SEVERAL:
        client = yaml.safe_load((INPUTS / CASES[name]["input"]).read_text())["client"]
        assert client["recipients"] == [PLEASANT]
