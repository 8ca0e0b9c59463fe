"""Every scripted outcome, as a client sees it and as the journal tells it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from raw_smtp import RawSmtp
from sendledger_sandbox import CaptureServer, ScriptFault, read_journal

BODY = b"Subject: t\r\n\r\nhello\r\n"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[CaptureServer]:
    async with CaptureServer(journal=tmp_path / "journal") as server:
        yield server


async def send(server: CaptureServer, outcome: str) -> bytes:
    async with RawSmtp(server.port) as client:
        return await client.send(f"pat+{outcome}@example.test")


@pytest.mark.parametrize(
    ("outcome", "reply"),
    [
        ("rcpt-550-5.1.1", b"550 5.1.1 "),
        ("rcpt-550", b"550 scripted"),
        ("data-451-4.3.0", b"451 4.3.0 "),
        ("dot-554-5.7.0", b"554 5.7.0 "),
        ("dot-421-4.3.2", b"421 4.3.2 "),
    ],
)
async def test_a_scripted_refusal_is_given_and_nothing_is_accepted(
    server: CaptureServer, outcome: str, reply: bytes
) -> None:
    assert (await send(server, outcome)).startswith(reply)
    assert read_journal(server.journal) == []
    assert server.unexpected == []


async def test_a_session_goes_on_after_a_scripted_refusal(server: CaptureServer) -> None:
    async with RawSmtp(server.port) as client:
        for outcome in ("rcpt-550-5.1.1", "data-451-4.3.0", "dot-554-5.7.0"):
            await client.send(f"pat+{outcome}@example.test")
            assert (await client.say("RSET")).startswith(b"250")
        assert (await client.send("pat@example.test")).startswith(b"250")
    assert server.unexpected == []


async def test_a_421_ends_the_session(server: CaptureServer) -> None:
    async with RawSmtp(server.port) as client:
        assert (await client.send("pat+rcpt-421-4.3.2@example.test")).startswith(b"421 4.3.2")
        assert await client.reply() == b""


async def test_a_greylisted_address_is_accepted_on_the_try_after_the_last_refusal(
    server: CaptureServer,
) -> None:
    replies = [await send(server, "greylist-2") for _ in range(3)]
    assert [reply[:9] for reply in replies] == [b"451 4.7.1", b"451 4.7.1", b"250 2.0.0"]


async def test_a_deferral_uses_the_code_it_names(server: CaptureServer) -> None:
    replies = [await send(server, "defer-1-452-4.2.2") for _ in range(2)]
    assert [reply[:9] for reply in replies] == [b"452 4.2.2", b"250 2.0.0"]


async def test_only_the_scripted_recipient_of_several_is_refused(server: CaptureServer) -> None:
    async with RawSmtp(server.port) as client:
        await client.say("MAIL FROM:<b@sender.example>")
        assert (await client.say("RCPT TO:<ok@example.test>")).startswith(b"250")
        assert (await client.say("RCPT TO:<gone+rcpt-550-5.1.1@example.test>")).startswith(b"550")
        await client.say("DATA")
        await client.write(BODY + b".\r\n")
        assert (await client.reply()).startswith(b"250")
    assert read_journal(server.journal)[0].rcpt == ("ok@example.test",)


@pytest.mark.parametrize(("phase", "answered"), [("rcpt", 1), ("data", 2), ("body", 3), ("dot", 3)])
async def test_a_dropped_connection_gives_no_answer_at_its_phase_and_accepts_nothing(
    server: CaptureServer, phase: str, answered: int
) -> None:
    async with RawSmtp(server.port) as client:
        replies = await client.begin(f"pat+drop-{phase}@example.test")
        assert len([reply for reply in replies if reply]) == answered
        if answered == 3:
            await client.write(BODY + (b".\r\n" if phase == "dot" else b""))
            assert await client.reply() == b""
    assert read_journal(server.journal) == []
    assert server.unexpected == []


async def test_a_lost_answer_leaves_the_message_in_the_journal(server: CaptureServer) -> None:
    assert await send(server, "lose-answer") == b""
    assert [found.rcpt for found in read_journal(server.journal)] == [
        ("pat+lose-answer@example.test",)
    ]


async def test_a_connection_dropped_after_the_250_does_not_undo_it(server: CaptureServer) -> None:
    async with RawSmtp(server.port) as client:
        assert (await client.send("pat+drop-replied@example.test")).startswith(b"250")
        assert await client.reply() == b""
    assert server.accepted == 1


@pytest.mark.parametrize("outcome", ["drop-data-once", "drop-dot-once", "rcpt-451-4.3.0-once"])
async def test_an_outcome_with_once_plays_for_the_first_try_only(
    server: CaptureServer, outcome: str
) -> None:
    first, second = await send(server, outcome), await send(server, outcome)
    assert not first.startswith(b"250")
    assert second.startswith(b"250")
    assert server.accepted == 1


async def test_an_answer_lost_once_is_given_the_second_time_and_both_are_journalled(
    server: CaptureServer,
) -> None:
    assert await send(server, "lose-answer-once") == b""
    assert (await send(server, "lose-answer-once")).startswith(b"250")
    assert [found.n for found in read_journal(server.journal)] == [1, 2]


@pytest.mark.parametrize("phase", ["rcpt", "data", "body", "dot", "accepted", "replied"])
async def test_a_stall_at_any_phase_changes_no_answer(server: CaptureServer, phase: str) -> None:
    assert (await send(server, f"stall-{phase}-0.01")).startswith(b"250")


async def test_outcomes_of_one_address_play_one_after_the_other(server: CaptureServer) -> None:
    replies = [await send(server, "greylist-1+lose-answer-once") for _ in range(3)]
    assert [reply[:3] for reply in replies] == [b"451", b"", b"250"]


@pytest.mark.parametrize(
    "outcome", ["rcptt-550-5.1.1", "drop-everything", "newsletter", "mail-550-5.7.1", ""]
)
async def test_a_script_error_is_refused_and_says_so(server: CaptureServer, outcome: str) -> None:
    assert (await send(server, outcome)).startswith(b"550 5.3.5 sandbox script: ")
    assert read_journal(server.journal) == []


@pytest.mark.parametrize(
    ("outcome", "reply"),
    [
        ("mail-550-5.7.1", b"550 5.7.1"),
        ("rcpt-451-4.7.1", b"451 4.7.1"),
        ("dot-552-5.2.2", b"552 5.2.2"),
    ],
)
async def test_the_script_of_the_server_plays_for_everybody(
    tmp_path: Path, outcome: str, reply: bytes
) -> None:
    async with (
        CaptureServer(journal=tmp_path / "journal", script=[outcome]) as server,
        RawSmtp(server.port) as client,
    ):
        assert (await client.send("pat@example.test")).startswith(reply)


async def test_the_greeting_can_be_scripted_and_ends_the_session(tmp_path: Path) -> None:
    async with (
        CaptureServer(journal=tmp_path / "journal", script=["greeting-554-5.3.2-once"]) as server,
        RawSmtp(server.port, ehlo=False) as refused,
        RawSmtp(server.port, ehlo=False) as welcome,
    ):
        assert refused.greeting.startswith(b"554 5.3.2")
        assert await refused.reply() == b""
        assert welcome.greeting.startswith(b"220")


async def test_quit_can_go_unanswered(tmp_path: Path) -> None:
    async with (
        CaptureServer(journal=tmp_path / "journal", script=["drop-quit"]) as server,
        RawSmtp(server.port) as client,
    ):
        assert (await client.send("pat@example.test")).startswith(b"250")
        assert await client.say("QUIT") == b""


async def test_the_script_of_the_server_can_be_replaced_and_its_turns_start_anew(
    server: CaptureServer,
) -> None:
    async with RawSmtp(server.port) as client:
        replies: list[bytes] = []
        for script in (["rcpt-450-4.2.1-once"], ["rcpt-450-4.2.1-once"], []):
            server.play(*script)
            replies.append((await client.send("pat@example.test"))[:3])
            await client.say("RSET")
    assert replies == [b"450", b"450", b"250"]


def test_a_script_error_of_the_server_is_raised_at_once(tmp_path: Path) -> None:
    with pytest.raises(ScriptFault):
        CaptureServer(journal=tmp_path / "journal", script=["drop-everything"])
