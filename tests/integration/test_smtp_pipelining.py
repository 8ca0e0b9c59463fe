"""MAIL, RCPT and DATA in one write: replies find their commands, and a server that loses count is found out."""

from __future__ import annotations

from typing import Any

import pytest

from sendledger.plugin import Evidence, Outcome, Scope
from smtp_kit import (
    AT_DOT,
    BYE,
    GREETED,
    HUSH,
    PROMPT,
    Steps,
    channel_for,
    envelope,
    hand_over,
    judge,
)
from smtp_peer import ScriptedPeer

ACCEPTED: Steps = [{"send": "250 2.0.0 Ok: queued as 4XQ2yz0abc\r\n"}]
GROUP: Steps = [{"expect": "MAIL FROM"}, {"expect": "RCPT TO"}, {"expect": "DATA"}]
AT_GROUP: Steps = [*GREETED, *GROUP]
WHOLE: Steps = [*AT_DOT, *ACCEPTED]
TRANSACTION: Steps = WHOLE[len(GREETED) :]
TAKEN = "250 2.1.0 Ok\r\n"
UNKNOWN = "550 5.1.1 unknown\r\n"
NOBODY = "554 5.5.1 no valid recipients\r\n"
GO = "354 go on\r\n"


def answering(*replies: str) -> Steps:
    """Answer a group only when it is whole, with these."""
    return [*AT_GROUP, {"send": "".join(replies)}]


async def played(*scripts: Steps, **changes: Any) -> tuple[ScriptedPeer, list[Evidence]]:
    """Submit once for each script, on one channel; the peer offers pipelining."""
    async with ScriptedPeer(scripts=scripts, pipelining=True) as peer:
        channel = channel_for(peer, **changes)
        evidence = [await hand_over(channel, envelope()) for _ in scripts]
        await channel.aclose()
    return peer, evidence


def said(peer: ScriptedPeer, connection: int = 0) -> list[bytes]:
    return [octets for speaker, octets in peer.log[connection] if speaker == "C"]


def in_groups(peer: ScriptedPeer, connection: int) -> bool:
    """Whether what came behind EHLO in one piece was more than MAIL."""
    return said(peer, connection)[1].count(b"\r\n") == 3


FIRST_WRITE: Steps = [*GREETED, {"read_write": True}, {"close": True}]


# --- one write ----------------------------------------------------------------------------------------


async def test_a_group_is_one_write_where_it_is_offered() -> None:
    peer, _ = await played(FIRST_WRITE)
    assert in_groups(peer, 0)
    assert said(peer)[1].endswith(b"RCPT TO:<pupil.parent@example.com>\r\nDATA\r\n")


async def test_where_pipelining_is_switched_off_each_command_waits_for_its_reply() -> None:
    peer, _ = await played(FIRST_WRITE, pipelining="off")
    assert not in_groups(peer, 0)


async def test_where_it_is_not_offered_each_command_waits_for_its_reply() -> None:
    async with ScriptedPeer(scripts=[FIRST_WRITE]) as peer:
        channel = channel_for(peer)
        await hand_over(channel, envelope())
        await channel.aclose()
    assert not in_groups(peer, 0)


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_replies_find_their_commands_however_they_are_cut_or_joined(size: int) -> None:
    replies = f"250-2.1.0 sender\r\n{TAKEN}250 2.1.5 Ok\r\n354-go\r\n{GO}"
    pieces = [{"send": replies[at : at + size]} for at in range(0, len(replies), size)]
    script = [*AT_GROUP, *pieces, {"expect_data": True}, *ACCEPTED, *BYE]
    peer, [evidence] = await played(script)
    assert judge(evidence).outcome is Outcome.ACCEPTED
    assert evidence.provider_reference == "4XQ2yz0abc"
    assert (peer.failures, len(peer.messages)) == ([], 1)


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replies", "stage", "literal"),
    [
        (("550 5.7.1 sender\r\n", "503 5.5.1 no\r\n", "503 5.5.1 no\r\n"), "mail", 0),
        ((TAKEN, UNKNOWN, NOBODY), "rcpt", 1),
        ((TAKEN, "450 4.2.0 later\r\n", "503 5.5.1 no\r\n"), "rcpt", 1),
        ((TAKEN, TAKEN, "451 4.3.0 not now\r\n"), "data", 2),
    ],
)
async def test_the_first_refusal_is_the_evidence_and_the_session_stays_good(
    replies: tuple[str, ...], stage: str, literal: int
) -> None:
    script = [*answering(*replies), {"expect": "RSET"}, {"send": TAKEN}, *TRANSACTION, *BYE]
    async with ScriptedPeer(scripts=[script], pipelining=True) as peer:
        channel = channel_for(peer)
        evidence = await hand_over(channel, envelope())
        assert judge(await hand_over(channel, envelope())).outcome is Outcome.ACCEPTED
        await channel.aclose()
    assert (evidence.stage, evidence.handed_over) == (stage, False)
    assert evidence.literal == replies[literal].encode()
    assert (peer.connections, len(peer.messages), peer.failures) == (1, 1, [])


@pytest.mark.parametrize(
    "replies",
    [(TAKEN, UNKNOWN, GO), ("550 5.1.1 unknown\r\n", "503 5.5.1 no\r\n", GO)],
    ids=["recipient refused", "sender refused"],
)
async def test_a_server_that_wants_a_message_for_nobody_gets_a_lone_dot(
    replies: tuple[str, ...],
) -> None:
    nothing: Steps = [{"expect_data": True}, {"send": NOBODY}]
    script = [
        *answering(*replies),
        *nothing,
        {"expect": "RSET"},
        {"send": TAKEN},
        *TRANSACTION,
        *BYE,
    ]
    async with ScriptedPeer(scripts=[script], pipelining=True) as peer:
        channel = channel_for(peer)
        evidence = await hand_over(channel, envelope())
        await hand_over(channel, envelope())
        await channel.aclose()
    assert (evidence.literal, evidence.handed_over) == (UNKNOWN.encode(), False)
    assert peer.messages[0] == b""
    assert (peer.connections, len(peer.messages), peer.failures) == (1, 2, [])


@pytest.mark.parametrize("end", [TAKEN, "421 4.3.2 leaving\r\n", "garbage"])
async def test_a_lone_dot_that_is_not_refused_ends_the_session(end: str) -> None:
    script = [*answering(TAKEN, UNKNOWN, GO), {"expect_data": True}, {"send": end}, {"close": True}]
    peer, [evidence, _] = await played(script, FIRST_WRITE)
    assert (evidence.stage, evidence.literal) == ("rcpt", UNKNOWN.encode())
    assert (peer.connections, peer.messages) == (2, [b""])


@pytest.mark.parametrize(
    "rest", [[{"close": True}], [{"send": "421 4.3.2 leaving\r\n"}, {"close": True}], [HUSH]]
)
async def test_a_refusal_stands_whatever_becomes_of_the_rest(rest: list[Any]) -> None:
    script = [*answering(TAKEN, UNKNOWN), *rest]
    peer, [evidence, _] = await played(script, FIRST_WRITE, timeouts=PROMPT | {"data_init": "50ms"})
    assert (evidence.stage, evidence.reply_code) == ("rcpt", 550)
    assert judge(evidence).outcome is Outcome.PERMANENT
    assert peer.connections == 2


async def test_a_goodbye_in_the_place_of_a_reply_is_the_answer_of_that_stage() -> None:
    script = [*answering(TAKEN, "421 4.3.2 leaving\r\n"), {"close": True}]
    peer, [evidence, _] = await played(script, FIRST_WRITE)
    assert (evidence.stage, evidence.reply_code, evidence.handed_over) == ("rcpt", 421, False)
    assert in_groups(peer, 1)


async def test_a_goodbye_behind_354_comes_before_the_message() -> None:
    script = [*answering(TAKEN, TAKEN, GO, "421 4.3.2 leaving\r\n"), HUSH]
    peer, [evidence] = await played(script)
    assert (evidence.stage, evidence.reply_code, evidence.handed_over) == ("data", 421, False)
    assert peer.messages == []


# --- servers that lose count --------------------------------------------------------------------------

MISCOUNTED = {
    "DATA answered before RCPT": (TAKEN, GO, TAKEN),
    "one reply too many": (TAKEN, TAKEN, GO, TAKEN),
    "one reply too many in front": (TAKEN, TAKEN, TAKEN, GO),
    "a recipient behind a refused sender": ("550 5.7.1 no\r\n", TAKEN, GO),
    "done before the message": (TAKEN, UNKNOWN, TAKEN),
    "garbage": (TAKEN, "what?\r\n"),
    "lines of two replies": (TAKEN, "250-a\r\n550 b\r\n"),
}


@pytest.mark.parametrize("replies", MISCOUNTED.values(), ids=MISCOUNTED)
async def test_a_server_that_loses_count_is_handed_nothing_and_then_asked_step_by_step(
    replies: tuple[str, ...],
) -> None:
    peer, [evidence, accepted] = await played([*answering(*replies), HUSH], [*WHOLE, *BYE])
    assert (evidence.handed_over, evidence.answered) == (False, False)
    assert evidence.fault == "unsynchronised"
    assert evidence.literal
    assert "".join(replies).encode().startswith(evidence.literal)
    meaning = judge(evidence)
    assert (meaning.rule, meaning.outcome, meaning.scope) == (
        "smtp.unsynchronised",
        Outcome.TRANSIENT,
        Scope.CHANNEL,
    )
    assert judge(accepted).outcome is Outcome.ACCEPTED
    assert (peer.connections, len(peer.messages), peer.failures[1:]) == (2, 1, [])


@pytest.mark.parametrize("replies", MISCOUNTED.values(), ids=MISCOUNTED)
async def test_behind_lost_count_no_group_is_sent(replies: tuple[str, ...]) -> None:
    peer, _ = await played([*answering(*replies), HUSH], FIRST_WRITE)
    assert not in_groups(peer, 1)


@pytest.mark.parametrize(
    "end",
    [
        [*AT_GROUP, {"close": True}],
        [*answering(TAKEN), {"close": True}],
        [*answering(TAKEN), HUSH],
        [*answering(TAKEN, TAKEN), HUSH],
    ],
    ids=["closed at once", "closed after MAIL", "one reply", "two replies"],
)
async def test_who_never_answered_a_group_and_leaves_one_unanswered_is_sent_no_other(
    end: Steps,
) -> None:
    patience = PROMPT | {"command": "1s", "data_init": "50ms"}
    peer, [evidence, _] = await played(end, FIRST_WRITE, timeouts=patience)
    assert (evidence.handed_over, evidence.answered) == (False, False)
    assert judge(evidence).scope is Scope.CHANNEL
    assert not in_groups(peer, 1)


async def test_a_break_within_a_group_is_an_outage_where_groups_were_answered_before() -> None:
    peer, evidence = await played(
        [*WHOLE, *BYE],
        [*answering(TAKEN), {"close": True}],
        FIRST_WRITE,
        messages_per_session_max="1",
    )
    assert (evidence[1].stage, evidence[1].fault) == ("rcpt", "closed")
    assert in_groups(peer, 2)


# --- kept sessions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [
        [{"close": True}],
        [{"reset": True}],
        [{"send": "421 4.4.2 idle\r\n"}, {"close": True}],
    ],
)
async def test_a_kept_session_found_dead_at_mail_is_replaced_in_the_same_attempt(
    end: list[Any],
) -> None:
    first: Steps = [*WHOLE, {"expect": "MAIL FROM"}, *end]
    async with ScriptedPeer(
        scripts=[first, [*answering(TAKEN, TAKEN, GO), {"expect_data": True}, *ACCEPTED, *BYE]],
        pipelining=True,
    ) as peer:
        channel = channel_for(peer)
        evidence = [await hand_over(channel, envelope()) for _ in range(2)]
        await channel.aclose()
    assert [judge(one).outcome for one in evidence] == [Outcome.ACCEPTED] * 2
    assert (peer.connections, len(peer.messages), peer.failures) == (2, 2, [])


async def test_a_kept_session_that_dies_past_mail_is_not_tried_again() -> None:
    script = [*WHOLE, *GROUP, {"send": TAKEN}, {"close": True}]
    async with ScriptedPeer(scripts=[script], pipelining=True) as peer:
        channel = channel_for(peer)
        await hand_over(channel, envelope())
        evidence = await hand_over(channel, envelope())
        await channel.aclose()
    assert (evidence.stage, evidence.fault) == ("rcpt", "closed")
    assert peer.connections == 1
