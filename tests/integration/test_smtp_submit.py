"""One transaction against a scripted peer: evidence for every way it can end, and what goes on the wire."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from raw_smtp import wait_until
from sendledger.plugin import Evidence, Outcome
from smtp_kit import (
    AT_DATA,
    AT_DOT,
    AT_RCPT,
    BYE,
    GREETED,
    HUSH,
    PROMPT,
    Steps,
    both,
    channel_for,
    envelope,
    hand_over,
    hand_over_once,
    judge,
)
from smtp_peer import ScriptedPeer

AT_MAIL: Steps = [*GREETED, {"expect": "MAIL FROM"}]
STAGES = {"mail": AT_MAIL, "rcpt": AT_RCPT, "data": AT_DATA, "dot": AT_DOT}
PATIENCE = {"mail": "command", "rcpt": "command", "data": "data_init", "dot": "data_end"}


async def played(steps: Steps, *, together: bool = False, **changes: Any) -> Evidence:
    async with ScriptedPeer(scripts=[steps], pipelining=together) as peer:
        return await hand_over_once(peer, envelope(), **changes)


def said(peer: ScriptedPeer, connection: int = 0) -> list[bytes]:
    return [octets for speaker, octets in peer.log[connection] if speaker == "C"]


@both
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_lost_connection_is_evidence_of_its_stage(
    stage: str, end: str, *, together: bool
) -> None:
    evidence = await played([*STAGES[stage], {end: True}], together=together)
    assert evidence == Evidence(
        stage=stage, handed_over=stage == "dot", answered=False, fault="closed"
    )


@both
@pytest.mark.parametrize("stage", STAGES)
async def test_silence_is_evidence_of_its_stage(stage: str, *, together: bool) -> None:
    patience = PROMPT | {PATIENCE[stage]: "50ms"}
    if stage in {"mail", "rcpt"}:  # EHLO has to be answered in the same time
        patience = PROMPT | {"command": "1s"}
    evidence = await played([*STAGES[stage], HUSH], together=together, timeouts=patience)
    assert evidence == Evidence(
        stage=stage, handed_over=stage == "dot", answered=False, fault="timeout"
    )


@both
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("code", [421, 451, 550])
async def test_a_refusal_is_evidence_of_its_stage_byte_for_byte(
    stage: str, code: int, *, together: bool
) -> None:
    reply = f"{code}-{code // 100}.7.1 no\r\n{code} {code // 100}.7.1 never\r\n"
    evidence = await played([*STAGES[stage], {"send": reply}, *BYE], together=together)
    assert evidence == Evidence(
        stage=stage,
        handed_over=stage == "dot",
        answered=True,
        literal=reply.encode(),
        reply_code=code,
        enhanced_code=f"{code // 100}.7.1",
    )


@both
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    "garbage", ["not a reply\r\n", "250-one\r\n550 other\r\n", "150 wrong class\r\n"]
)
async def test_garbage_is_no_answer_and_is_kept_as_evidence(
    stage: str, garbage: str, *, together: bool
) -> None:
    evidence = await played([*STAGES[stage], {"send": garbage}, HUSH], together=together)
    fault = "unsynchronised" if together and stage != "dot" else "protocol"
    assert (evidence.stage, evidence.answered, evidence.fault) == (stage, False, fault)
    assert evidence.literal.endswith(garbage.encode())
    assert judge(evidence).outcome is (Outcome.AMBIGUOUS if stage == "dot" else Outcome.TRANSIENT)


@both
@pytest.mark.parametrize(
    ("stage", "reply"), [("mail", "354 go\r\n"), ("data", "250 done\r\n"), ("dot", "354 more\r\n")]
)
async def test_a_positive_reply_in_the_wrong_place_is_no_answer(
    stage: str, reply: str, *, together: bool
) -> None:
    evidence = await played([*STAGES[stage], {"send": reply}, HUSH], together=together)
    fault = "unsynchronised" if together and stage != "dot" else "protocol"
    assert (evidence.stage, evidence.answered, evidence.fault) == (stage, False, fault)


@both
@pytest.mark.parametrize("code", [250, 251, 259])
async def test_any_completion_after_the_dot_is_acceptance(code: int, *, together: bool) -> None:
    evidence = await played([*AT_DOT, {"send": f"{code} done\r\n"}, *BYE], together=together)
    assert (evidence.handed_over, evidence.answered, evidence.reply_code) == (True, True, code)
    assert judge(evidence).outcome is Outcome.ACCEPTED


@both
async def test_an_enhanced_code_of_the_wrong_class_is_kept_and_flagged(*, together: bool) -> None:
    evidence = await played([*AT_RCPT, {"send": "450 5.1.1 odd\r\n"}, *BYE], together=together)
    assert evidence.enhanced_code == "5.1.1"
    assert evidence.facts == {"violation": "enhanced-class"}
    assert judge(evidence).outcome is Outcome.TRANSIENT


async def test_a_reply_sent_ahead_of_its_command_is_never_taken_for_the_answer() -> None:
    early = "354 go\r\n250 2.0.0 Ok: queued as 4XQ2yz0abc\r\n"
    evidence = await played([*AT_DATA, {"send": early}, HUSH])
    assert (evidence.handed_over, evidence.answered, evidence.fault) == (False, False, "protocol")
    assert judge(evidence).outcome is Outcome.TRANSIENT


async def test_half_a_reply_sent_ahead_of_a_command_ends_the_session() -> None:
    evidence = await played([*AT_RCPT, {"send": "250 ok\r\n25"}, HUSH])
    assert (evidence.stage, evidence.answered, evidence.fault) == ("data", False, "protocol")


@both
async def test_a_goodbye_sent_ahead_of_a_command_is_its_answer(*, together: bool) -> None:
    evidence = await played(
        [*AT_RCPT, {"send": "250 ok\r\n421 4.3.2 leaving\r\n"}, HUSH], together=together
    )
    assert (evidence.stage, evidence.reply_code, evidence.handed_over) == ("data", 421, False)


@both
async def test_a_connection_cut_while_the_message_is_written_leaves_the_outcome_unknown(
    *, together: bool
) -> None:
    steps = [*AT_DATA, {"send": "354 go on\r\n"}, {"read_bytes": 20_000}, {"reset": True}]
    async with ScriptedPeer(scripts=[steps], pipelining=together) as peer:
        large = b"Subject: t\r\n\r\n" + b"y" * 70 * 30_000
        evidence = await hand_over_once(peer, envelope(message=large))
    assert (evidence.stage, evidence.handed_over, evidence.answered) == ("dot", True, False)
    assert judge(evidence).outcome is Outcome.AMBIGUOUS


LARGE = b"Subject: t\r\n\r\n" + (b"y" * 70 + b"\r\n") * 360_000


@both
async def test_a_peer_that_stops_reading_the_message_leaves_the_outcome_unknown(
    *, together: bool
) -> None:
    steps = [*AT_DATA, {"send": "354 go on\r\n"}, {"read_bytes": 20_000}, HUSH]
    evidence = Evidence(stage="dot", handed_over=True, answered=False, fault="timeout")
    async with ScriptedPeer(scripts=[steps], pipelining=together) as peer:
        patience = PROMPT | {"data_block": "100ms"}
        assert await hand_over_once(peer, envelope(message=LARGE), timeouts=patience) == evidence


@both
async def test_a_refusal_before_the_whole_message_is_written_is_an_answer(
    *, together: bool
) -> None:
    refusal = "552 5.3.4 too big\r\n"
    steps = [*AT_DATA, {"send": "354 go on\r\n"}, {"read_bytes": 20_000}, {"send": refusal}, HUSH]
    async with ScriptedPeer(scripts=[steps], pipelining=together) as peer:
        evidence = await hand_over_once(peer, envelope(message=LARGE))
    assert (evidence.handed_over, evidence.answered, evidence.reply_code) == (True, True, 552)


@both
async def test_an_acceptance_before_the_whole_message_is_written_is_none(*, together: bool) -> None:
    steps = [
        *AT_DATA,
        {"send": "354 go on\r\n"},
        {"read_bytes": 20_000},
        {"send": "250 ok\r\n"},
        HUSH,
    ]
    async with ScriptedPeer(scripts=[steps], pipelining=together) as peer:
        evidence = await hand_over_once(peer, envelope(message=LARGE))
    assert (evidence.handed_over, evidence.answered, evidence.fault) == (True, False, "protocol")


@both
async def test_a_reply_that_comes_after_a_while_is_accepted(*, together: bool) -> None:
    slow = [*AT_DOT, {"stall_s": 1.2}, {"send": "250 2.0.0 Ok\r\n"}, *BYE]
    evidence = await played(
        slow, together=together, timeouts=PROMPT | {"command": "1s", "data_init": "1s"}
    )
    assert judge(evidence).outcome is Outcome.ACCEPTED


@both
@pytest.mark.parametrize("stage", ["rcpt", "dot"])
async def test_a_cancelled_submission_closes_its_session(stage: str, *, together: bool) -> None:
    scripts: list[Steps] = [[*STAGES[stage], HUSH], [*AT_DOT, {"send": "250 ok\r\n"}, *BYE]]
    async with ScriptedPeer(scripts=scripts, pipelining=together) as peer:
        channel = channel_for(peer)
        cut = asyncio.create_task(hand_over(channel, envelope()))
        await wait_until(lambda: len(peer.log) == 1 and len(said(peer)) == len(STAGES[stage]) // 2)
        cut.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cut
        assert judge(await hand_over(channel, envelope())).outcome is Outcome.ACCEPTED
        await channel.aclose()
    assert peer.connections == 2
    assert peer.failures == []
