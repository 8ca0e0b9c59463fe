"""Destinations: one spelling for each, and a refusal that repeats nothing."""

from __future__ import annotations

import re

from sendledger.plugin.channel import DestinationRefused
from sendledger.plugin.conformance.bench import Bench, bench, bounded
from sendledger.plugin.conformance.rig import ChannelRig

CONTROLS = ("\r\n", "\n", "\r", "\0", "\x1b", "\x7f", "\x85", "\u2028", "\u202e")
REASON = re.compile(r"[a-z0-9][a-z0-9._-]*")
LONG = 100_000


class DestinationChecks:
    """``sendledger_destination`` is pure, idempotent and discreet."""

    @bounded
    async def test_a_good_destination_is_normalised_once_and_for_all(self, rig: ChannelRig) -> None:
        """Normalising what was normalised changes nothing, so one person stays one person."""
        async with bench(rig) as on:
            for text in rig.good:
                once = on.port.destination(text)
                twice = on.port.destination(once.address)
                assert twice == once, "a normalised address is normalised differently"

    @bounded
    async def test_different_destinations_stay_different(self, rig: ChannelRig) -> None:
        """No two people are taken for one."""
        async with bench(rig) as on:
            canonical = {on.port.destination(text).canonical for text in rig.good}
            assert len(canonical) == len(rig.good) > 1, (
                "two destinations share one canonical spelling"
            )

    @bounded
    async def test_what_is_no_destination_is_refused_without_being_quoted(
        self, rig: ChannelRig
    ) -> None:
        """A refusal has a stable reason and a remedy, and may be shown to anybody."""
        async with bench(rig) as on:
            assert rig.bad, "bad needs a text that is no destination"
            for text in (*rig.bad, "", " "):
                assert not _passes(on, text), "the channel takes a text that the rig calls bad"

    @bounded
    async def test_no_control_character_gets_through(self, rig: ChannelRig) -> None:
        """A line break in an address would be a command of its own."""
        async with bench(rig) as on:
            for text in _with_controls(rig.good[0]):
                address = _passes(on, text)
                assert not address or not any(control in address for control in CONTROLS), (
                    "an address holds a line break or control character"
                )

    @bounded
    async def test_an_endless_text_is_refused(self, rig: ChannelRig) -> None:
        """Nobody's address has a hundred thousand characters."""
        async with bench(rig) as on:
            text = rig.good[0]
            for endless in (text + text[-1] * LONG, text[0] * LONG + text, text * LONG):
                assert not _passes(on, endless), "the channel takes an endless address"


def _with_controls(text: str) -> list[str]:
    middle = len(text) // 2
    return [
        spoilt
        for control in CONTROLS
        for spoilt in (
            control + text,
            text[:middle] + control + text[middle:],
            text + control,
            f"{text}{control}{text}",
        )
    ]


def _passes(on: Bench, text: str) -> str | None:
    """Return the address of *text*, or None when it is refused as it should be."""
    try:
        return on.port.destination(text).address
    except DestinationRefused as refused:
        _judge(refused, text.strip())
    return None


def _judge(refusal: DestinationRefused, text: str) -> None:
    assert REASON.fullmatch(refusal.reason), "a reason is one lower-case word"
    assert refusal.remedy.strip(), "a refusal says what to write instead"
    assert not text or text not in f"{refusal!r} {refusal.remedy}", "the refusal repeats the text"
