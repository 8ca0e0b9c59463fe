"""Look-ups: what the provider knows of an attempt, of that attempt alone, and nothing where it cannot be asked."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from datetime import timedelta

import pytest

from sendledger.plugin.conformance.bench import (
    HURRIED,
    PATIENT,
    Bench,
    bounded,
    shown,
    soon,
    until,
)
from sendledger.plugin.conformance.discretion import assert_nothing_said, secrets_of
from sendledger.plugin.conformance.fates import assert_told, identities, looking, playable
from sendledger.plugin.conformance.meaning import RULE
from sendledger.plugin.conformance.rig import ChannelRig, Fate, Reaction
from sendledger.plugin.receipts import Asked, Found, Receipt

ANOTHER_DAY = timedelta(days=1)
AWAY = (None, Reaction.LOSE_ANSWER, Reaction.GARBLE_ANSWER, Reaction.STALL)
"""Ways in which a provider gives no answer; None is one that cannot be reached."""


class LookUpChecks:
    """``sendledger_look_up`` asks, and says what was answered about whom."""

    @pytest.mark.parametrize("fate", Fate)
    @bounded
    async def test_a_message_is_found_by_its_reference(self, rig: ChannelRig, fate: Fate) -> None:
        """What the provider answers is evidence, byte for byte, and never less than an acceptance."""
        async with looking(rig) as on:
            on.need(fate)
            envelope = on.envelope()
            submitted = await on.hand_over(envelope)
            on.rig.settle(on.peer, on.peer.taken[-1], fate)
            receipt = await _the_one(on, on.asked(envelope, submitted.provider_reference))
            literal = receipt.evidence.literal
            assert literal, "an answer is kept as it was read"
            assert literal in on.peer.said, "the literal is not what the peer said"
            assert_told(on, receipt, fate, submitted)

    @bounded
    async def test_a_message_is_found_without_a_reference(self, rig: ChannelRig) -> None:
        """An attempt whose answer was lost is found by what was handed over."""
        async with looking(rig) as on:
            envelope = on.envelope()
            on.play(Reaction.LOSE_ANSWER)
            taken = await on.take(envelope)
            on.play(Reaction.ACCEPT)
            if rig.unsearchable:
                [found] = await on.port.look_up([on.asked(envelope)])
                _assert_unknown(found)
                return
            receipt = await _the_one(on, on.asked(envelope))
            assert receipt.evidence.provider_reference == taken.reference, "another is found"

    @bounded
    async def test_what_was_not_taken_is_not_found(self, rig: ChannelRig) -> None:
        """Neither what nobody handed over, nor what the same person was sent on another day."""
        async with looking(rig) as on:
            _need_search(rig)
            taken = on.envelope()
            await on.take(taken)
            whom = dataclasses.replace(on.addressee(), attempt_number=2, token="z" * 44)
            later = on.asked(on.envelope_of(whom), later=ANOTHER_DAY)
            for found in await on.port.look_up([on.asked(on.envelope(1)), later]):
                _assert_none(found)

    @bounded
    async def test_what_the_provider_does_not_know_is_not_found(self, rig: ChannelRig) -> None:
        """It keeps nothing for ever: that it knows of none is an answer, and no failure."""
        async with looking(rig) as on:
            envelope = on.envelope()
            taken = await on.take(envelope)
            on.rig.forget(on.peer, taken)
            [found] = await on.port.look_up([on.asked(envelope, taken.reference)])
            _assert_none(found)

    @bounded
    async def test_several_candidates_are_all_named(self, rig: ChannelRig) -> None:
        """Nobody can tell which it is, so no single one is given for it."""
        async with looking(rig) as on:
            _need_search(rig)
            if on.port.capabilities.idempotent:
                pytest.skip("nothing is taken twice by an idempotent provider")
            envelope = on.envelope()
            taken = {(await on.take(envelope)).reference for _ in range(2)}
            [found] = await on.port.look_up([on.asked(envelope)])
            named = {receipt.evidence.provider_reference for receipt in found.receipts}
            assert named == taken, "of several candidates not all are named"

    @bounded
    async def test_each_attempt_has_its_own_answer_in_order(self, rig: ChannelRig) -> None:
        """An answer about one attempt never names another, whatever is asked beside it."""
        async with looking(rig) as on:
            asked, references = await _several(on)
            for order in (1, -1):
                answers = await on.port.look_up(asked[::order])
                named = [_references(found) for found in answers]
                assert named == references[::order], "an answer is about another attempt"

    @bounded
    async def test_a_find_has_one_identity_until_it_changes(self, rig: ChannelRig) -> None:
        """To ask again tells nothing new; what became of the message meanwhile does."""
        async with looking(rig) as on:
            envelope = on.envelope()
            taken = await on.take(envelope)
            asked = on.asked(envelope, taken.reference)
            told = []
            for fate in playable(on):
                on.rig.settle(on.peer, taken, fate)
                once, again = [identities([await _the_one(on, asked)]) for _ in range(2)]
                assert once == again, "the same find is another event when it is asked for again"
                told += once
            assert len(set(told)) == len(told), "different finds share an identity"

    @pytest.mark.parametrize("reaction", AWAY)
    @bounded
    async def test_a_provider_that_gives_no_answer_says_nothing(
        self, rig: ChannelRig, reaction: Reaction | None
    ) -> None:
        """Not even that there is none; it takes bounded time, and is over when the provider is back."""
        async with looking(rig, answer_within=_patience(reaction)) as on:
            envelope = on.envelope()
            taken = await on.take(envelope)
            asked = on.asked(envelope, taken.reference)
            await _go_away(on, reaction)
            await soon(_fail(on, [asked]), "a look-up that is not answered does not end")
            await _come_back(on, reaction)
            found = await _the_one(on, asked)
            assert found.evidence.provider_reference == taken.reference, "another is found"

    @bounded
    async def test_a_cancelled_look_up_ends_and_leaves_nothing_open(self, rig: ChannelRig) -> None:
        """Cancelling means that time is up; closing the channel ends what look-ups left idle."""
        async with looking(rig) as on:
            asked, _ = await _several(on)
            on.play(Reaction.STALL)
            task = asyncio.create_task(_ask(on, asked))
            done, _ = await asyncio.wait([task], timeout=HURRIED.total_seconds())
            assert not done, "the peer was never asked"
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=HURRIED.total_seconds() * 10)
            assert done, "a cancelled look-up goes on"
            if not task.cancelled():
                for found in task.result():
                    _assert_unknown(found)
            await soon(on.host.aclose(), "aclose does not end soon")
            await until(lambda: on.peer.connections == 0, "a connection outlives aclose")

    @pytest.mark.parametrize("reaction", AWAY)
    def test_nothing_of_a_person_is_said_of_a_look_up(
        self,
        rig: ChannelRig,
        reaction: Reaction | None,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        """No log line, word or fact holds a destination; only the literal may."""
        caplog.set_level(logging.DEBUG)
        text, secrets = _look_up(rig, reaction)
        for secret in secrets:
            assert secret not in text, "what is shown of a find names a person"
        assert_nothing_said(secrets, caplog, capfd)


def _patience(reaction: Reaction | None) -> timedelta:
    return HURRIED if reaction is Reaction.STALL else PATIENT


async def _the_one(on: Bench, asked: Asked) -> Receipt:
    [found] = await on.port.look_up([asked])
    assert found.failed is None, "the provider answered"
    assert len(found.receipts) == 1, "what was taken is not found"
    return found.receipts[0]


async def _several(on: Bench) -> tuple[list[Asked], list[list[str | None]]]:
    """Let the peer take from everybody; return what can be asked of it, and the references in each answer."""
    asked: list[Asked] = []
    references: list[list[str | None]] = []
    for number in range(len(on.rig.good)):
        envelope = on.envelope(number)
        taken = await on.take(envelope)
        known = [taken.reference] if on.rig.unsearchable else [taken.reference, None]
        asked += [on.asked(envelope, reference) for reference in known]
        references += [[taken.reference] for _ in known]
    return asked, references


async def _ask(on: Bench, asked: Sequence[Asked]) -> Sequence[Found]:
    return await on.port.look_up(asked)


async def _go_away(on: Bench, reaction: Reaction | None) -> None:
    if reaction is None:
        await on.peer.leave()
    else:
        on.play(reaction)


async def _come_back(on: Bench, reaction: Reaction | None) -> None:
    if reaction is None:
        await on.peer.come_back()
    else:
        on.play(Reaction.ACCEPT)


async def _fail(on: Bench, asked: Sequence[Asked]) -> None:
    for found in await on.port.look_up(asked):
        _assert_unknown(found)


def _assert_unknown(found: Found) -> None:
    assert found.failed, "nobody answered, and that is taken for an answer"
    assert RULE.fullmatch(found.failed), "why a look-up failed is one lower-case word"
    assert not found.receipts, "nobody answered, and yet something is found"


def _assert_none(found: Found) -> None:
    assert found.failed is None, "that there is none is an answer"
    assert not found.receipts, "what is not there is found"


def _references(found: Found) -> list[str | None]:
    return [receipt.evidence.provider_reference for receipt in found.receipts]


def _need_search(rig: ChannelRig) -> None:
    if rig.unsearchable:
        pytest.skip(f"cannot be searched: {rig.unsearchable}")


def _look_up(rig: ChannelRig, reaction: Reaction | None) -> tuple[str, tuple[str, ...]]:
    """Return what is shown of two look-ups, the second met by *reaction*; and what must not be."""
    text: list[str] = []
    secrets: list[str] = []

    @bounded
    async def ask() -> None:
        async with looking(rig, answer_within=_patience(reaction)) as on:
            secrets.extend(secrets_of(on))
            asked, _ = await _several(on)
            text.append(_shown(await on.port.look_up(asked)))
            await _go_away(on, reaction)
            text.append(_shown(await on.port.look_up(asked)))

    ask()
    return " ".join(text), tuple(secrets)


def _shown(answers: Sequence[Found]) -> str:
    receipts = [receipt for found in answers for receipt in found.receipts]
    words = [str(found.failed) for found in answers]
    return " ".join([*words, *(f"{each.identity} {shown(each.evidence)}" for each in receipts)])
