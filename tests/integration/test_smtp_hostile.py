"""A server that says anything, cut anywhere, or drops at any moment: no wrong handoff, and nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import itertools
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raw_smtp import wait_until
from sendledger.plugin import Outcome
from sendledger_smtp.wire import Wire
from smtp_kit import MESSAGE, channel_for, envelope, hand_over, hand_over_once, judge

GREETING = b"220 relay.example ESMTP\r\n"
EHLO = b"250-relay.example\r\n250 PIPELINING\r\n"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class Listening:
    host: str = "127.0.0.1"
    port: int = 0
    met: int = 0
    playing: set[asyncio.Task[None]] = field(default_factory=set)


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[Listening]:
    """Serve each connection so, and drop it afterwards; a client that is gone ends it too."""
    found = Listening()

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await serve(reader, writer)

    def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.met += 1
        task = asyncio.create_task(play(reader, writer))
        found.playing.add(task)
        task.add_done_callback(found.playing.discard)
        task.add_done_callback(lambda _: writer.transport.close())

    listener = await asyncio.start_server(meet, found.host, 0)
    found.port = listener.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        listener.close()
        for task in tuple(found.playing):
            task.cancel()
        await asyncio.gather(*found.playing, return_exceptions=True)
        await listener.wait_closed()


async def write(writer: asyncio.StreamWriter, said: Sequence[bytes]) -> None:
    for piece in said:
        writer.write(piece)
        await writer.drain()


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(GREETING)
    await reader.readline()
    writer.write(EHLO)


# --- anything said ------------------------------------------------------------------------------------


def whole(*digits: str) -> re.Pattern[bytes]:
    """Match replies of these classes, one after the other: the client's rules, written down once more."""
    lines = "".join(
        rf"(?=(?P<c{at}>{digit}[0-9]{{2}}))(?:(?P=c{at})-[^\r\n]*\r?\n)*(?P=c{at})(?: [^\r\n]*)?\r?\n"
        for at, digit in enumerate(digits)
    )
    return re.compile(lines.encode())


READY = whole("2", "2", "3")
TAKEN = whole("2")

words = st.binary(max_size=12).map(lambda raw: re.sub(rb"[\r\n]", b"?", raw))
codes = st.sampled_from([250, 250, 250, 354, 354, 251, 421, 450, 503, 550, 554, 199, 600])
lines = st.builds(
    lambda code, mark, text, end: b"%d%b%b%b" % (code, mark, text, end),
    codes,
    st.sampled_from([b" ", b" ", b" ", b"-", b"_"]),
    words,
    st.sampled_from([b"\r\n", b"\r\n", b"\n", b"\r", b""]),
)
sayings = st.lists(st.one_of(lines, lines, lines, st.binary(max_size=8)), max_size=6).map(b"".join)
orderly = st.lists(
    st.sampled_from(
        [b"250 ok\r\n", b"250-a\r\n250 b\r\n", b"354 go\r\n", b"550 no\r\n", b"421 bye\r\n"]
    ),
    max_size=5,
).map(b"".join)
good = st.just(b"250 sender\r\n250 recipient\r\n354 go\r\n")
cuts = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def pieces(raw: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Cut *raw* into pieces of *sizes*, again and again."""
    found: list[bytes] = []
    at = 0
    for size in itertools.cycle(sizes):
        if at >= len(raw):
            return found
        found.append(raw[at : at + size])
        at += size
    return found


@given(st.one_of(good, orderly, sayings), st.one_of(st.just(b"250 taken\r\n"), sayings), cuts)
@example(b"250 a\r\n550 b\r\n354 c\r\n", b"250 taken\r\n", [3])
@example(b"250-a\r\n250 a\r\n250 b\r\n354 c\r\n", b"250 taken\r\n", [1])
@settings(max_examples=400, deadline=None)
async def test_whatever_is_said_no_message_goes_that_was_not_asked_for(
    before: bytes, after: bytes, sizes: list[int]
) -> None:
    heard = b""

    async def say_anything(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        await greet(reader, writer)
        await reader.readuntil(b"\r\nDATA\r\n")
        await write(writer, pieces(before, sizes))
        if READY.match(before):
            heard = await reader.readuntil(b".\r\n")
            await write(writer, pieces(after, sizes))

    async with listening(say_anything) as peer:
        evidence = await hand_over_once(peer, envelope())
    assert evidence.handed_over == (MESSAGE in heard)
    if evidence.handed_over:
        assert READY.match(before)
    assert evidence.literal in before + after
    outcome = judge(evidence).outcome
    if outcome is Outcome.ACCEPTED:
        assert TAKEN.match(evidence.literal)
        assert evidence.handed_over
    if not evidence.handed_over:
        assert outcome in {Outcome.TRANSIENT, Outcome.PERMANENT}
    if READY.fullmatch(before):
        assert evidence.handed_over
        assert TAKEN.fullmatch(after) is None or outcome is Outcome.ACCEPTED


# --- dropped at any moment ----------------------------------------------------------------------------

DROPS = 1_000
SESSIONS = 10
SAID = (GREETING, EHLO, b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n")
"""What is said before anything, and in answer to EHLO, MAIL, RCPT and DATA."""

MOMENTS: Sequence[tuple[int, bytes]] = (
    *((answered, b"") for answered in range(len(SAID) + 1)),
    (3, b"250-half"),
    (3, b"550 5.1.1 no\r\n"),
    (3, b"354 odd\r\n"),
    (len(SAID), b"250 2.0.0 Ok\r\n"),
)
"""How many of these are said, and what is said in the place of the next, before the connection is dropped.

Behind nonsense it is the client who has to drop it.
"""


def dropping() -> Serve:
    """Drop each connection at the next moment."""
    moments = itertools.cycle(MOMENTS)

    async def drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answered, last = next(moments)
        for said in SAID[:answered]:
            writer.write(said)
            await reader.readuntil(b"\r\n.\r\n" if said.startswith(b"354") else b"\r\n")
        writer.write(last)
        await writer.drain()
        if b"odd" in last:
            await reader.read()

    return drop


def open_files() -> int:
    return sum(1 for _ in OPEN_FILES.iterdir())


OPEN_FILES = Path("/proc/self/fd")


async def submit_many(peer: Listening) -> set[Outcome]:
    """Submit on one channel, a few at a time, until so many connections were dropped; close it."""
    channel = channel_for(peer, sessions_max=str(SESSIONS))
    outcomes: set[Outcome] = set()

    async def submit() -> None:
        while peer.met < DROPS:
            outcomes.add(judge(await hand_over(channel, envelope())).outcome)

    await asyncio.gather(*[submit() for _ in range(SESSIONS)])
    await wait_until(lambda: channel._pool._leaving == set())
    await channel.aclose()
    assert channel._pool._idle == []
    return outcomes


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="open files are counted in /proc")
async def test_a_thousand_drops_leave_no_connection_no_task_and_no_open_file() -> None:
    tasks, files = len(asyncio.all_tasks()), open_files()
    async with listening(dropping()) as peer:
        outcomes = await submit_many(peer)
    assert outcomes == {
        Outcome.ACCEPTED,
        Outcome.TRANSIENT,
        Outcome.PERMANENT,
        Outcome.AMBIGUOUS,
    }
    await wait_until(lambda: open_files() <= files and len(asyncio.all_tasks()) <= tasks)
    gc.collect()
    assert [found for found in gc.get_objects() if isinstance(found, Wire)] == []
