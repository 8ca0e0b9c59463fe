"""Submissions: literal evidence for every end, exact about the handoff, and nothing raised."""

from __future__ import annotations

import asyncio

import pytest

from sendledger.ledger.evidence import Evidence
from sendledger.plugin.conformance.bench import HURRIED, PATIENT, Bench, bench, bounded, until
from sendledger.plugin.conformance.rig import ChannelRig, Reaction

SILENT_EARLY = frozenset({Reaction.CLOSE_EARLY})
SILENT_LATE = frozenset({Reaction.LOSE_ANSWER, Reaction.GARBLE_ANSWER, Reaction.STALL})
SILENT = SILENT_EARLY | SILENT_LATE


class SubmissionChecks:
    """``sendledger_submit`` says what was read and how far the handoff had come."""

    @pytest.mark.parametrize("reaction", Reaction)
    @bounded
    async def test_it_says_what_was_read_and_how_far_it_had_come(
        self, rig: ChannelRig, reaction: Reaction
    ) -> None:
        """Whatever the peer does is evidence, byte for byte; from the handoff on silence proves nothing."""
        patience = HURRIED if reaction is Reaction.STALL else PATIENT
        async with bench(rig, answer_within=patience) as on:
            on.play(reaction)
            evidence = await on.hand_over()
            assert evidence.stage, "a step has a word"
            if reaction in SILENT:
                _assert_unanswered(evidence, handed_over=reaction in SILENT_LATE)
            else:
                _assert_answered(on, evidence)
            if reaction is Reaction.REFUSE_SESSION:
                assert not evidence.handed_over, "nothing is handed over at the door"

    @bounded
    async def test_the_reference_of_an_acceptance_is_kept(self, rig: ChannelRig) -> None:
        """What the peer calls the message is how it is found again."""
        async with bench(rig) as on:
            evidence = await on.hand_over()
            assert evidence.handed_over, "accepted is handed over"
            given = on.peer.taken[-1].reference
            assert evidence.provider_reference == given, "the reference is not what the peer gave"

    @bounded
    async def test_two_submissions_on_one_session_keep_apart(self, rig: ChannelRig) -> None:
        """Each gets its own answer; what a session cannot take twice is not handed over."""
        async with bench(rig) as on:
            async with on.port.session() as session:
                answers = [await on.submit(session, number) for number in (0, 1)]
            handed = [evidence for evidence in answers if evidence.handed_over]
            assert handed, "the first submission of a ready session was not handed over"
            references = [evidence.provider_reference for evidence in handed]
            given = [taken.reference for taken in on.peer.taken]
            assert references == given, "an answer is not that to its own submission"

    @bounded
    async def test_submissions_side_by_side_keep_apart(self, rig: ChannelRig) -> None:
        """No submission is answered with the answer to another."""
        async with bench(rig) as on:
            whom = [on.envelope(number) for number in range(len(rig.good))]
            answers = await asyncio.gather(*map(on.hand_over, whom))
            references = {taken.destinations: taken.reference for taken in on.peer.taken}
            assert len(on.peer.taken) == len(whom)
            for envelope, evidence in zip(whom, answers, strict=True):
                given = references[envelope.destination,]
                assert evidence.provider_reference == given, (
                    "an answer is not that to its own submission"
                )

    @bounded
    async def test_a_cancelled_submission_ends_and_its_session_is_not_used_again(
        self, rig: ChannelRig
    ) -> None:
        """Cancelling means that time is up: it ends at once, claims nothing, and leaves nothing in use."""
        async with bench(rig) as on:
            on.play(Reaction.STALL)
            task = asyncio.create_task(on.hand_over())
            await until(lambda: task.done() or on.peer.taken, "the peer was never reached")
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=HURRIED.total_seconds() * 10)
            assert done, "a cancelled submission goes on"
            if not task.cancelled():
                _assert_unanswered(task.result(), handed_over=True)
            on.play(Reaction.ACCEPT)
            assert (await on.hand_over()).answered
            first, *_, last = on.peer.taken
            assert first.connection != last.connection, "a cancelled session is used again"
            await until(lambda: on.peer.connections <= 1, "a cancelled session stays open")


def _assert_unanswered(evidence: Evidence, *, handed_over: bool) -> None:
    assert not evidence.answered, "nothing was answered"
    assert evidence.handed_over is handed_over, (
        "it had been handed over" if handed_over else "it had not been handed over"
    )
    assert evidence.fault, "a broken step has a word"
    assert evidence.provider_reference is None, "nobody gave a reference"


def _assert_answered(on: Bench, evidence: Evidence) -> None:
    assert evidence.answered, "the peer answered"
    assert evidence.fault is None, "an answer is no broken step"
    assert evidence.literal, "an answer is kept as it was read"
    assert evidence.literal in on.peer.said, "the literal is not what the peer said"
