"""The scripted peer plays every transcript of the corpus, and notices a client that leaves the script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from raw_smtp import RawSmtp, wait_until
from smtp_peer import Script, ScriptedPeer, TlsContexts, make_tls

INPUTS = Path(__file__).parents[1] / "cases" / "inputs"
TRANSCRIPTS = sorted((INPUTS / "smtp").glob("*.yaml"))
GREETING: Script = [
    {"send": "220 relay.example ESMTP\r\n"},
    {"expect": "EHLO"},
    {"send": "250 relay.example\r\n"},
]


def client_of(path: Path) -> dict[str, Any]:
    client: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["client"]
    return client


async def replay(peer: ScriptedPeer, recipients: list[str], *, stay: bool) -> list[bytes]:
    """Do in each session what a plain client would do, and return the last reply to each message.

    To *stay* is to leave the first session open after its message, and to read what comes by itself.
    """
    replies: list[bytes] = []
    for _ in peer.scripts:
        async with RawSmtp(peer.port, ehlo=False) as client:
            if client.greeting.startswith(b"220"):
                await client.say("EHLO client.example.test")
                replies.append(await transact(client, recipients))
                if stay and len(replies) == 1:
                    assert (await client.reply()).startswith(b"421")
                else:
                    await client.say("RSET" if replies[-1][:1] in {b"4", b"5"} else "QUIT")
                    await client.say("QUIT")
            else:
                replies.append(client.greeting)
    return replies


async def transact(client: RawSmtp, recipients: list[str]) -> bytes:
    await client.say("MAIL FROM:<b+token@bounces.sender.example>")
    taken = [await client.say(f"RCPT TO:<{recipient}>") for recipient in recipients]
    if not any(reply.startswith(b"250") for reply in taken):
        return taken[-1]
    if not (reply := await client.say("DATA")).startswith(b"354"):
        return reply
    await client.write(b"Subject: t\r\n\r\n..hello\r\n.\r\n")
    return await client.reply()


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_every_transcript_is_played_to_its_end_without_a_mismatch(path: Path) -> None:
    client = client_of(path)
    async with ScriptedPeer.from_file(path, idle_s=0.01) as peer:
        replies = await replay(peer, client["recipients"], stay="connection_reuse" in client)
        assert peer.failures == []
        assert peer.connections == len(replies) == len(peer.scripts)
        said = b"".join(raw for session in peer.log for who, raw in session if who == "S")
        assert all(reply in said for reply in replies)


def test_every_case_names_an_input_that_exists() -> None:
    cases = yaml.safe_load((INPUTS / "cases.yaml").read_text(encoding="utf-8"))
    assert cases["count"] == len(cases["cases"])
    inputs = [case["input"] for case in cases["cases"] if "input" in case]
    assert [name for name in inputs if not (INPUTS / name).is_file()] == []
    assert {f"smtp/{path.name}" for path in TRANSCRIPTS} <= set(inputs)


async def test_a_connection_beyond_the_script_is_refused() -> None:
    async with ScriptedPeer(scripts=[]) as peer, RawSmtp(peer.port, ehlo=False) as client:
        assert client.greeting.startswith(b"421")


async def test_a_client_that_leaves_the_script_is_a_failure() -> None:
    async with ScriptedPeer(scripts=[[*GREETING, {"expect": "MAIL"}]]) as peer:
        async with RawSmtp(peer.port) as client:
            assert (await client.say("NOOP")).startswith(b"250")
            assert await client.say("DATA") == b""
        assert len(peer.failures) == 1
        assert "expected b'MAIL'" in peer.failures[0][1]


async def test_the_message_is_kept_as_it_was_sent() -> None:
    script: Script = [*GREETING, {"expect_data": True}, {"send": "250 Ok\r\n"}, {"expect": "QUIT"}]
    async with ScriptedPeer(scripts=[script, script]) as peer:
        for message in (b"Subject: t\r\n\r\n..x\n.\n\r\n", b""):
            async with RawSmtp(peer.port) as client:
                await client.write(message + b".\r\n")
                await client.reply()
        assert peer.messages == [b"Subject: t\r\n\r\n..x\n.\n\r\n", b""]


async def test_a_forbidden_command_is_a_failure_and_any_other_is_served() -> None:
    script: Script = [*GREETING, {"serve_until_quit": {"forbid": ["DATA"]}}]
    async with ScriptedPeer(scripts=[script, script]) as peer:
        async with RawSmtp(peer.port) as client:
            assert (await client.say("MAIL FROM:<>")).startswith(b"250")
            assert (await client.say("QUIT")).startswith(b"221")
        assert peer.failures == []
        async with RawSmtp(peer.port) as client:
            assert await client.say("DATA") == b""
        assert [number for number, _ in peer.failures] == [1]


async def test_bytes_are_read_and_the_connection_is_reset_where_the_script_says() -> None:
    script: Script = [*GREETING, {"read_bytes": 4}, {"stall_s": 0.01}, {"reset": True}]
    async with ScriptedPeer(scripts=[script]) as peer:
        async with RawSmtp(peer.port) as client:
            await client.write(b"abcd")
            assert await client.reply() == b""
        assert peer.log[0][-1] == ("C", b"abcd")


async def test_idled_tells_that_an_idle_client_was_left() -> None:
    script: Script = [*GREETING, {"after_idle": True}, {"close": True}]
    async with ScriptedPeer(scripts=[script], idle_s=0.01) as peer, RawSmtp(peer.port):
        await wait_until(peer.idled.is_set)


async def test_tls_is_started_where_the_script_says(tmp_path: Path) -> None:
    tls: TlsContexts = make_tls(tmp_path)
    script: Script = [
        *GREETING,
        {"expect": "STARTTLS"},
        {"send": "220 go\r\n"},
        {"start_tls": "now"},
    ]
    script = [*script, {"expect": "EHLO"}, {"send": "250 relay.example\r\n"}]
    async with ScriptedPeer(scripts=[script], tls_context=tls.server) as peer:
        async with RawSmtp(peer.port) as client:
            await client.say("STARTTLS")
            await client.start_tls(tls.client)
            assert (await client.say("EHLO client.example.test")).startswith(b"250")
        assert peer.failures == []
