"""``python -m sendledger_sandbox twilio`` as a process: ready line, options, and what survives SIGKILL."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from sendledger_sandbox.twilio import ACCOUNT_SID, AUTH_TOKEN, SENDER, read_journal
from stand_in_kit import DEADLINE_S, PLEASANT

FORM = {"To": PLEASANT, "From": SENDER, "Body": "hello"}


@asynccontextmanager
async def serving(*options: str) -> AsyncIterator[tuple[Process, str]]:
    command = (sys.executable, "-m", "sendledger_sandbox", "twilio", "--port", "0", *options)
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), DEADLINE_S)
        assert line.startswith(b"listening on http://127.0.0.1:")
        yield process, line.split()[-1].decode()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def client(*, account: str = ACCOUNT_SID, secret: str = AUTH_TOKEN) -> aiohttp.ClientSession:
    known = {"Authorization": aiohttp.encode_basic_auth(account, secret)}
    return aiohttp.ClientSession(headers=known, timeout=aiohttp.ClientTimeout(total=DEADLINE_S))


def messages_of(url: str, account: str = ACCOUNT_SID) -> str:
    return f"{url}/2010-04-01/Accounts/{account}/Messages.json"


async def test_no_answer_is_missing_from_the_journal_when_killed_under_load(tmp_path: Path) -> None:
    answered: set[str] = set()

    async def submit(url: str, process: Process, session: aiohttp.ClientSession) -> None:
        while True:
            async with session.post(messages_of(url), data=FORM) as response:
                answered.add((await response.json())["sid"])
            if len(answered) == 100:
                process.kill()

    async with (
        serving("--journal", str(tmp_path / "journal")) as (process, url),
        client() as session,
    ):
        tasks = (submit(url, process, session) for _ in range(10))
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert await process.wait() == -signal.SIGKILL
    assert {isinstance(end, aiohttp.ClientError) for end in ended} == {True}
    journalled = {entry.sid for entry in read_journal(tmp_path / "journal").accepted}
    assert len(answered) >= 100
    assert answered <= journalled


async def test_the_options_reach_the_server(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("another secret\n")
    account = f"AC{7:032x}"
    options = [
        *("--journal", str(tmp_path / "journal"), "--no-fsync", "--step", "0"),
        *("--account-sid", account, "--auth-token-file", str(tmp_path / "token")),
        *("--number", f"{PLEASANT}=refuse-21614-once", "--script", "end-sent"),
    ]
    async with (
        serving(*options) as (process, url),
        client(account=account, secret="another secret") as session,
    ):
        async with session.post(messages_of(url, account), data=FORM) as response:
            assert (await response.json())["code"] == 21614
        async with session.post(messages_of(url, account), data=FORM) as response:
            assert response.status == 201
        process.terminate()
        _, errors = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert (process.returncode, errors) == (0, b"")
    assert len(read_journal(tmp_path / "journal").accepted) == 1


async def test_what_cannot_be_served_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(json.dumps({"n": 1}).encode() + b"\n")
    for options, told in (
        (["--journal", str(tmp_path / "new"), "--script", "explode"], b"explode does not begin"),
        (["--journal", str(tmp_path / "new"), "--number", "+1=explode"], b"explode does not begin"),
        (["--journal", str(tmp_path / "journal")], b"no journal entry"),
        (["--journal", str(tmp_path / "missing" / "journal")], b"no such file"),
    ):
        command = (sys.executable, "-m", "sendledger_sandbox", "twilio", "--port", "0", *options)
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
        _, errors = await asyncio.wait_for(process.communicate(), DEADLINE_S)
        assert process.returncode == 2
        assert errors.startswith(b"sendledger_sandbox: cannot serve: ")
        assert (told in errors, errors.count(b"\n")) == (True, 1)
