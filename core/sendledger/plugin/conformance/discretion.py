"""Discretion: nothing of a person in a log, an exception, an output or the words of evidence."""

from __future__ import annotations

import logging

import pytest

from sendledger.plugin.conformance.bench import (
    HURRIED,
    NAME,
    PATIENT,
    REMARK,
    Bench,
    bench,
    bounded,
    shown,
)
from sendledger.plugin.conformance.rig import ChannelRig, Reaction


class DiscretionChecks:
    """What a channel does in passing says nothing of whom it does it for."""

    @pytest.mark.parametrize("reaction", Reaction)
    def test_nothing_of_a_person_is_said_in_passing(
        self,
        rig: ChannelRig,
        reaction: Reaction,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        """Only the literal answer may hold a destination; it is stored apart and erased with it."""
        caplog.set_level(logging.DEBUG)
        evidence, secrets = _hand_over(rig, reaction)
        logged = [f"{record.getMessage()} {vars(record)}" for record in caplog.records]
        printed = capfd.readouterr()
        for secret in secrets:
            assert secret not in evidence, "evidence names a person outside its literal"
            assert not any(secret in line for line in logged), "a log line names a person"
            assert secret not in printed.out + printed.err, "the output names a person"


def _hand_over(rig: ChannelRig, reaction: Reaction) -> tuple[str, tuple[str, ...]]:
    """Return what is shown of the evidence of one attempt, and what must not be."""
    found: list[str] = []
    secrets: list[str] = []

    @bounded
    async def hand_over() -> None:
        patience = HURRIED if reaction is Reaction.STALL else PATIENT
        async with bench(rig, answer_within=patience) as on:
            on.play(reaction)
            secrets.extend(_secrets(on))
            found.append(shown(await on.hand_over()))

    hand_over()
    return found[0], tuple(secrets)


def _secrets(on: Bench) -> tuple[str, ...]:
    destination = on.port.destination(on.rig.good[0])
    return (on.rig.good[0], destination.address, destination.canonical, NAME, REMARK)
