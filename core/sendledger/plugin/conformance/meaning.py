"""Meaning: the channel's rules say what was about whom, and never more than the evidence does."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from sendledger.ledger.evidence import Evidence
from sendledger.ledger.words import Outcome, Scope, Suppress
from sendledger.plugin.conformance.bench import HURRIED, PATIENT, bench, bounded
from sendledger.plugin.conformance.rig import ChannelRig, Reaction

RULE = re.compile(r"[a-z0-9][a-z0-9._-]*")
THEIRS = frozenset({Scope.RECIPIENT, Scope.MESSAGE})
OURS = frozenset({Scope.SENDER, Scope.CHANNEL})
ANY = THEIRS | OURS


@dataclass(frozen=True, slots=True)
class Meaning:
    """What evidence may mean: one of these outcomes, about one of these."""

    outcomes: frozenset[Outcome]
    scopes: frozenset[Scope]


MEANINGS = {
    Reaction.ACCEPT: Meaning(frozenset({Outcome.ACCEPTED, Outcome.DELIVERED}), ANY),
    Reaction.REFUSE_FOR_NOW: Meaning(frozenset({Outcome.TRANSIENT}), ANY),
    Reaction.REFUSE_ADDRESS: Meaning(frozenset({Outcome.PERMANENT}), frozenset({Scope.RECIPIENT})),
    Reaction.REFUSE_MESSAGE: Meaning(frozenset({Outcome.PERMANENT}), THEIRS),
    Reaction.REFUSE_SENDER: Meaning(frozenset({Outcome.PERMANENT}), OURS),
    Reaction.REFUSE_SESSION: Meaning(frozenset({Outcome.TRANSIENT}), frozenset({Scope.CHANNEL})),
    Reaction.CLOSE_EARLY: Meaning(frozenset({Outcome.TRANSIENT}), OURS),
    Reaction.LOSE_ANSWER: Meaning(frozenset({Outcome.AMBIGUOUS}), ANY),
    Reaction.GARBLE_ANSWER: Meaning(frozenset({Outcome.AMBIGUOUS}), ANY),
    Reaction.STALL: Meaning(frozenset({Outcome.AMBIGUOUS}), ANY),
}

STRANGE = (
    Evidence(stage="", handed_over=False, answered=False),
    Evidence(stage="nowhere", handed_over=False, answered=True, reply_code=999),
    Evidence(stage="nowhere", handed_over=True, answered=True, reply_code=0, literal=b"\xff\x00"),
    Evidence(stage="nowhere", handed_over=True, answered=True, literal=b"\r\n" * 10_000),
    Evidence(stage="nowhere", handed_over=True, answered=False, reply_code=250, fault="closed"),
    Evidence(stage="nowhere", handed_over=True, answered=True, enhanced_code="....", reply_code=5),
    Evidence(stage="nowhere", handed_over=False, answered=False, facts={"": ""}, fault=""),
)
"""Evidence that no channel gives, but an older or a newer version of one may have stored."""


class MeaningChecks:
    """``sendledger_classify``, with the shipped rules where the channel names a table."""

    @pytest.mark.parametrize("reaction", Reaction)
    @bounded
    async def test_evidence_means_what_the_peer_meant(
        self, rig: ChannelRig, reaction: Reaction
    ) -> None:
        """Never is not later, ours is not theirs, and what nobody knows is ambiguous."""
        patience = HURRIED if reaction is Reaction.STALL else PATIENT
        async with bench(rig, answer_within=patience) as on:
            on.play(reaction)
            found = on.port.classify(await on.hand_over())
            meant = MEANINGS[reaction]
            assert found.outcome in meant.outcomes, "that is not what the peer meant"
            assert found.scope in meant.scopes, "that is not whom the peer meant"
            assert RULE.fullmatch(found.rule), "a rule is named by one lower-case word"

    @pytest.mark.parametrize(
        "reaction", [each for each in Reaction if each != Reaction.REFUSE_ADDRESS]
    )
    @bounded
    async def test_nobody_is_suppressed_but_for_their_address(
        self, rig: ChannelRig, reaction: Reaction
    ) -> None:
        """Only evidence about the destination itself may stop later messages to it."""
        patience = HURRIED if reaction is Reaction.STALL else PATIENT
        async with bench(rig, answer_within=patience) as on:
            on.play(reaction)
            found = on.port.classify(await on.hand_over())
            suppressed = found.suppress is not Suppress.NONE or found.opt_out
            assert not suppressed, "evidence that is not about the address suppresses it"

    @bounded
    async def test_meaning_depends_on_the_evidence_alone(self, rig: ChannelRig) -> None:
        """The ledger is read again years later, in any order, and must say the same."""
        async with bench(rig) as on:
            on.play(Reaction.REFUSE_FOR_NOW)
            evidence = await on.hand_over()
            first = on.port.classify(evidence)
            for strange in STRANGE:
                on.port.classify(strange)
            again = on.port.classify(evidence)
            assert again == first, "the same evidence means something else"

    @pytest.mark.parametrize("number", range(len(STRANGE)))
    @bounded
    async def test_strange_evidence_is_no_reason_to_raise(
        self, rig: ChannelRig, number: int
    ) -> None:
        """What cannot be read is classified by default, not by an exception."""
        async with bench(rig) as on:
            assert RULE.fullmatch(on.port.classify(STRANGE[number]).rule)
