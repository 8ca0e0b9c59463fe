"""One transaction against a scripted peer: evidence for every way it can end, and what goes on the wire."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from raw_smtp import wait_until
from sendledger.plugin import Evidence, Outcome
from sendledger_sandbox import CaptureServer, read_journal
from smtp_kit import (
    AT_DATA,
    AT_DOT,
    AT_RCPT,
    BYE,
    GREETED,
    HUSH,
    MESSAGE,
    PLEASANT,
    PROMPT,
    TOKEN,
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


# --- every end of a transaction -----------------------------------------------------------------------


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


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    "garbage", ["not a reply\r\n", "250-one\r\n550 other\r\n", "150 wrong class\r\n"]
)
async def test_garbage_is_no_answer_and_is_kept_as_evidence(stage: str, garbage: str) -> None:
    evidence = await played([*STAGES[stage], {"send": garbage}, HUSH])
    assert (evidence.stage, evidence.answered, evidence.fault) == (stage, False, "protocol")
    assert evidence.literal == garbage.encode()
    assert judge(evidence).outcome is (Outcome.AMBIGUOUS if stage == "dot" else Outcome.TRANSIENT)


@pytest.mark.parametrize(
    ("stage", "reply"), [("mail", "354 go\r\n"), ("data", "250 done\r\n"), ("dot", "354 more\r\n")]
)
async def test_a_positive_reply_in_the_wrong_place_is_no_answer(stage: str, reply: str) -> None:
    evidence = await played([*STAGES[stage], {"send": reply}, HUSH])
    assert (evidence.stage, evidence.answered, evidence.fault) == (stage, False, "protocol")


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


# --- what goes on the wire ----------------------------------------------------------------------------


def ehlo(*extensions: str) -> Steps:
    *first, last = ("relay.example", *extensions)
    lines = "".join(f"250-{line}\r\n" for line in first) + f"250 {last}\r\n"
    return [{"send": "220 relay.example ESMTP\r\n"}, {"expect": "EHLO"}, {"send": lines}]


ACCEPTING: Steps = [
    {"expect": "MAIL FROM"},
    {"send": "250 ok\r\n"},
    {"expect": "RCPT TO"},
    {"send": "250 ok\r\n"},
    {"expect": "DATA"},
    {"send": "354 go\r\n"},
    {"expect_data": True},
    {"send": "250 ok\r\n"},
    *BYE,
]


async def commands(
    *extensions: str, destination: str = PLEASANT, message: bytes = MESSAGE
) -> list[bytes]:
    async with ScriptedPeer(scripts=[[*ehlo(*extensions), *ACCEPTING]]) as peer:
        evidence = await hand_over_once(peer, envelope(destination, message))
    assert judge(evidence).outcome is Outcome.ACCEPTED
    assert peer.failures == []
    return said(peer)


async def test_without_extensions_the_commands_are_bare() -> None:
    assert await commands() == [
        b"EHLO sender.example\r\n",
        b"MAIL FROM:<b+%b@bounces.sender.example>\r\n" % TOKEN.encode(),
        b"RCPT TO:<pupil.parent@example.com>\r\n",
        b"DATA\r\n",
        MESSAGE + b".\r\n",
        b"QUIT\r\n",
    ]


async def test_delivery_reports_are_asked_for_where_dsn_is_offered() -> None:
    _, mail, rcpt, *_ = await commands("DSN", destination="pat+a=b@example.com")
    assert mail.endswith(b"> RET=HDRS ENVID=%b\r\n" % TOKEN.encode())
    assert rcpt == (
        b"RCPT TO:<pat+a=b@example.com> NOTIFY=FAILURE,DELAY ORCPT=rfc822;pat+2Ba+3Db@example.com\r\n"
    )


async def test_the_size_is_declared_where_it_is_asked_for() -> None:
    assert (await commands("SIZE 1000"))[1].endswith(b"> SIZE=%d\r\n" % len(MESSAGE))
    assert (await commands("SIZE 0"))[1].endswith(b"> SIZE=%d\r\n" % len(MESSAGE))
    assert (await commands("SIZE"))[1].endswith(b"> SIZE=%d\r\n" % len(MESSAGE))


async def test_a_non_ascii_local_part_asks_for_smtputf8() -> None:
    _, mail, rcpt, *_ = await commands(
        "SMTPUTF8", "8BITMIME", "DSN", destination="josé@example.com"
    )
    assert b"> BODY=8BITMIME SMTPUTF8 " in mail
    assert rcpt == "RCPT TO:<josé@example.com> NOTIFY=FAILURE,DELAY\r\n".encode()


@pytest.mark.parametrize(
    ("extension", "one", "fault"),
    [
        ("SIZE 10", envelope(), "too-large"),
        ("8BITMIME", envelope("josé@example.com"), "smtputf8-missing"),
        ("DSN", envelope("a@b.example> ORCPT=x"), "unsafe-argument"),
        ("DSN", envelope("a@b.example\r\nRCPT TO:<c@d.example"), "unsafe-argument"),
    ],
)
async def test_what_cannot_be_said_is_not_said_and_the_session_stays_good(
    extension: str, one: Any, fault: str
) -> None:
    async with ScriptedPeer(scripts=[[*ehlo(extension), *BYE]]) as peer:
        evidence = await hand_over_once(peer, one)
    assert evidence == Evidence(stage="mail", handed_over=False, answered=False, fault=fault)
    assert said(peer) == [b"EHLO sender.example\r\n", b"QUIT\r\n"]
    assert peer.failures == []


async def test_a_hidden_envelope_stays_part_of_the_message_even_for_a_lenient_peer(
    tmp_path: Path,
) -> None:
    hidden = b"MAIL FROM:<a@evil.example>\nRCPT TO:<b@evil.example>\nDATA\nx\n.\n"
    journal = tmp_path / "accepted.jsonl"
    async with CaptureServer(journal=journal, strict=False, fsync=False) as server:
        for end in (b"\n.\n", b"\r.\r", b"\n.\r\n", b"\r\n.\n", b"\r\n.\r\n", b"\r\n.\r"):
            evidence = await hand_over_once(server, envelope(message=MESSAGE + end + hidden))
            assert judge(evidence).outcome is Outcome.ACCEPTED
        assert server.unexpected == []
    accepted = read_journal(journal)
    assert len(accepted) == 6
    assert {entry.rcpt for entry in accepted} == {(PLEASANT,)}
