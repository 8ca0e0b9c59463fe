"""``python -m sendledger_sandbox`` as a process: ready line, signals, and what survives SIGKILL."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from raw_smtp import DEADLINE_S, RawSmtp
from sendledger_sandbox import read_journal


@asynccontextmanager
async def sandbox(*options: str) -> AsyncIterator[tuple[Process, int]]:
    command = (sys.executable, "-m", "sendledger_sandbox", "smtp", "--port", "0", *options)
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), DEADLINE_S)
        assert line.startswith(b"listening on 127.0.0.1:")
        yield process, int(line.rpartition(b":")[2])
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def run(*arguments: str) -> tuple[int | None, bytes, bytes]:
    command = (sys.executable, "-m", "sendledger_sandbox", *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    out, err = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    return process.returncode, out, err


async def test_every_message_that_was_answered_250_survives_sigkill(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    for run_number in range(1, 4):
        async with sandbox("--journal", str(journal)) as (process, port), RawSmtp(port) as client:
            assert (await client.send(f"p{run_number}@example.test")).startswith(b"250")
            process.kill()
            await process.wait()
        assert [found.n for found in read_journal(journal)] == list(range(1, run_number + 1))


async def test_no_answer_is_missing_from_the_journal_when_killed_under_load(tmp_path: Path) -> None:
    answered: set[str] = set()

    async def send(port: int, number: int, process: Process) -> None:
        async with RawSmtp(port) as client:
            for i in range(1000):
                rcpt = f"p{number}.{i}@example.test"
                if not (await client.send(rcpt)).startswith(b"250"):
                    return
                answered.add(rcpt)
                if len(answered) == 100:
                    process.kill()

    async with sandbox("--journal", str(tmp_path / "journal")) as (process, port):
        await asyncio.gather(
            *(send(port, number, process) for number in range(10)), return_exceptions=True
        )
        assert await process.wait() == -signal.SIGKILL
    journalled = {found.rcpt[0] for found in read_journal(tmp_path / "journal")}
    assert len(answered) >= 100
    assert answered <= journalled


async def test_sigterm_ends_it_cleanly_with_a_client_still_connected(tmp_path: Path) -> None:
    async with (
        sandbox("--journal", str(tmp_path / "journal")) as (process, port),
        RawSmtp(port) as client,
    ):
        await client.begin("pat@example.test")
        process.terminate()
        _, errors = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert (process.returncode, errors) == (0, b"")


async def test_the_options_reach_the_server(tmp_path: Path) -> None:
    options = [
        "--keep",
        str(tmp_path / "kept"),
        "--lenient",
        "--no-fsync",
        "--script",
        "stall-dot-0.01",
    ]
    async with (
        sandbox("--journal", str(tmp_path / "journal"), *options) as (_, port),
        RawSmtp(port) as client,
    ):
        assert (await client.send("pat@example.test", b"Subject: t\n\nbare\r\n")).startswith(b"250")
    assert (tmp_path / "kept" / "000001.eml").read_bytes() == b"Subject: t\n\nbare\r\n"


async def test_help_documents_the_script_language() -> None:
    code, out, _ = await run("smtp", "--help")
    assert code == 0
    assert b"lose-answer" in out
    assert b"drop-PHASE" in out


async def test_a_bad_script_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    arguments = [
        "smtp",
        "--port",
        "0",
        "--journal",
        str(tmp_path / "journal"),
        "--script",
        "explode",
    ]
    code, _, err = await run(*arguments)
    assert code == 2
    assert err.startswith(b"sendledger_sandbox: cannot serve: explode does not begin an outcome")
    assert err.count(b"\n") == 1


async def test_a_journal_that_cannot_be_opened_is_one_sentence_and_exit_code_2(
    tmp_path: Path,
) -> None:
    code, _, err = await run(
        "smtp", "--port", "0", "--journal", str(tmp_path / "missing" / "journal")
    )
    assert code == 2
    assert err.count(b"\n") == 1
