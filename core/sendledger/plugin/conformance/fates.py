"""What comes after the handoff: what it must hold, and what it may mean. Shared by receipts and look-ups."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from sendledger.ledger.evidence import Evidence
from sendledger.ledger.words import Outcome, Suppress
from sendledger.plugin.channel import Receipts
from sendledger.plugin.conformance.bench import PATIENT, Bench, bench
from sendledger.plugin.conformance.meaning import RULE
from sendledger.plugin.conformance.rig import ChannelRig, Fate
from sendledger.plugin.receipts import Receipt

TAKEN = frozenset({Outcome.ACCEPTED})
ARRIVED = frozenset({Outcome.DELIVERED})
LOST = frozenset({Outcome.TRANSIENT, Outcome.PERMANENT})


@asynccontextmanager
async def receiving(rig: ChannelRig) -> AsyncIterator[Bench]:
    """Lend a bench whose channel reads receipts, or skip the test."""
    async with bench(rig) as on:
        if not on.port.reads_callbacks:
            pytest.skip("not offered: receipts")
        yield on


@asynccontextmanager
async def looking(rig: ChannelRig, *, answer_within: timedelta = PATIENT) -> AsyncIterator[Bench]:
    """Lend a bench whose channel looks up, or skip the test."""
    async with bench(rig, answer_within=answer_within) as on:
        if not on.port.capabilities.look_up:
            pytest.skip("not offered: look-up")
        yield on


def playable(on: Bench) -> list[Fate]:
    """Return the fates that the provider can tell."""
    return [fate for fate in Fate if fate not in on.rig.unplayable]


def identities(receipts: Sequence[Receipt]) -> list[str]:
    """Return the identities of the events that *receipts* tell."""
    return [receipt.identity for receipt in receipts]


def assert_told(on: Bench, receipt: Receipt, fate: Fate, submitted: Evidence) -> None:
    """Hold *receipt* to what the provider told, about what was *submitted*."""
    evidence = receipt.evidence
    assert (evidence.handed_over, evidence.answered) == (True, True), (
        "whoever tells of a message has taken it, and has said so"
    )
    assert evidence.fault is None, "what was told is no broken step"
    assert evidence.stage, "a step has a word"
    assert evidence.stage != submitted.stage, "its stage is that of a submission"
    assert evidence.provider_reference == submitted.provider_reference, (
        "the reference is not that of the submission"
    )
    _assert_means(on, evidence, fate)


def _assert_means(on: Bench, evidence: Evidence, fate: Fate) -> None:
    found = on.port.classify_later(evidence)
    assert found.outcome in _outcomes(on, fate), "that is not what the provider told"
    assert RULE.fullmatch(found.rule), "a rule is named by one lower-case word"
    if fate is not Fate.LOST:
        suppressed = found.suppress is not Suppress.NONE or found.opt_out
        assert not suppressed, "a message that is not lost suppresses its destination"


def _outcomes(on: Bench, fate: Fate) -> frozenset[Outcome]:
    offered = on.port.capabilities
    match fate:
        case Fate.LOST:
            return LOST
        case Fate.ARRIVED if (
            offered.receipts is Receipts.DELIVERED or offered.acceptance_is_arrival
        ):
            return ARRIVED
        case _:  # words that nobody knows prove that it was taken, and nothing more
            return TAKEN
