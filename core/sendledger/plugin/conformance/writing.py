"""Messages: the same for the same addressee, nothing of anybody else, and texts that stay texts."""

from __future__ import annotations

import pytest

from sendledger.plugin.channel import ContentFault, Envelope
from sendledger.plugin.conformance.bench import (
    CHANNEL,
    NAME,
    PATIENT,
    REMARK,
    Bench,
    bench,
    bounded,
    build,
    content_of,
)
from sendledger.plugin.conformance.rig import ChannelRig

INTRUDER = "intruder-4711"
HALF_A_CHARACTER = f"\ud800{INTRUDER}"
HOSTILE = (
    f"\r\nBcc: {INTRUDER}@elsewhere.test",
    f"\n{INTRUDER}: 1\n\n{INTRUDER}",
    f"\r{INTRUDER}",
    f"\r\n.\r\n{INTRUDER}\r\n",
    f"\n.\n{INTRUDER}\n",
    f"\0{INTRUDER}",
    f"\x1b[2J{INTRUDER}",
    f"\x85{INTRUDER}\u2028{INTRUDER}",
    f"--{INTRUDER}--",
    f"{{{{name}}}}{INTRUDER}{{{{remark}}}}",
    f'"><script>{INTRUDER}</script>&amp;',
    HALF_A_CHARACTER,
)
"""Values that try to be more than a value: headers, commands, ends of messages, templates, half characters."""


class WritingChecks:
    """``sendledger_prepare`` compiles once; its writer splices one addressee at a time in."""

    @bounded
    async def test_a_message_is_the_same_each_time_it_is_written(self, rig: ChannelRig) -> None:
        """Apart from time, in another process too: a later attempt is the same message."""
        async with bench(rig) as on:
            whom = on.addressee()
            first = rig.timeless(on.writer.write(whom))
            again = rig.timeless(on.writer.write(whom))
            assert again == first, "the same message is written differently"
            other = build(rig, rig.settings(on.peer, answer_within=PATIENT)).channel(CHANNEL)
            written = other.prepare(content_of(rig, other)).write(whom)
            assert rig.timeless(written) == first, "another process writes another message"

    @bounded
    async def test_a_message_holds_nothing_of_another_addressee(self, rig: ChannelRig) -> None:
        """Whoever was written to before leaves no trace."""
        async with bench(rig) as on:
            alone = rig.timeless(on.writer.write(on.addressee(1, name="Oda", remark="ivory-09")))
            before = on.addressee(0)
            on.writer.write(before)
            after = rig.timeless(on.writer.write(on.addressee(1, name="Oda", remark="ivory-09")))
            assert after == alone, "what was written before changes a message"
            for trace in (before.destination, before.intent_key, before.token, NAME, REMARK):
                assert trace.encode() not in after, "a message names another addressee"

    @bounded
    async def test_what_was_written_is_what_arrives(self, rig: ChannelRig) -> None:
        """The peer takes the message whole, once, for the one destination of its envelope."""
        async with bench(rig) as on:
            envelope = on.envelope()
            await on.hand_over(envelope)
            _assert_arrived(on, envelope)

    @pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
    @bounded
    async def test_a_hostile_value_is_refused_or_stays_a_value(
        self, rig: ChannelRig, value: str
    ) -> None:
        """No text becomes a header, a command or a second message; a refusal repeats none of it."""
        async with bench(rig) as on:
            for variable in ("name", "remark"):
                await _assert_harmless(on, {variable: value})


async def _assert_harmless(on: Bench, variables: dict[str, str]) -> None:
    on_the_wire = len(on.peer.taken)
    try:
        envelope = on.envelope(0, **variables)
    except ContentFault as fault:
        _judge(fault)
        return
    tame = on.envelope(0)
    assert on.rig.structure(envelope.message) == on.rig.structure(tame.message), (
        "a value changes more than the text it stands in"
    )
    await on.hand_over(envelope)
    _assert_arrived(on, envelope, after=on_the_wire)


def _judge(refusal: ContentFault) -> None:
    own = refusal.rule != "content.plugin-fault"
    assert own, "refuse it with a ContentFault of your own"
    assert INTRUDER not in str(refusal), "the refusal repeats the value"


def _assert_arrived(on: Bench, envelope: Envelope, after: int = 0) -> None:
    [taken] = on.peer.taken[after:]
    assert taken.destinations == (envelope.destination,)
    assert taken.message == envelope.message, "the peer took something else"
