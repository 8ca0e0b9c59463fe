"""Discretion: nothing of a person in a log, an exception, an output or the words of evidence."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

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
from sendledger.settings.secret import Secret


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
        for secret in secrets:
            assert secret not in evidence, "evidence names a person outside its literal"
        assert_nothing_said(secrets, caplog, capfd)


def assert_nothing_said(
    secrets: Sequence[str], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Hold what was logged and printed to silence about *secrets*."""
    logged = [f"{record.getMessage()} {vars(record)}" for record in caplog.records]
    printed = capfd.readouterr()
    for secret in secrets:
        assert not any(secret in line for line in logged), "a log line names a person"
        assert secret not in printed.out + printed.err, "the output names a person"


def secrets_of(on: Bench) -> tuple[str, ...]:
    """Return what is readable about the first addressee, and what the settings keep secret."""
    text = on.rig.good[0]
    destination = on.port.destination(text)
    kept = _secrets_in(on.rig.settings(on.peer, answer_within=PATIENT))
    return (text, destination.address, destination.canonical, NAME, REMARK, *kept)


def _secrets_in(value: object) -> Iterator[str]:
    if isinstance(value, Secret):
        yield value.reveal()
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _secrets_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _secrets_in(each)


def _hand_over(rig: ChannelRig, reaction: Reaction) -> tuple[str, tuple[str, ...]]:
    """Return what is shown of the evidence of one attempt, and what must not be."""
    found: list[str] = []
    secrets: list[str] = []

    @bounded
    async def hand_over() -> None:
        patience = HURRIED if reaction is Reaction.STALL else PATIENT
        async with bench(rig, answer_within=patience) as on:
            on.play(reaction)
            secrets.extend(secrets_of(on))
            found.append(shown(await on.hand_over()))

    hand_over()
    return found[0], tuple(secrets)
