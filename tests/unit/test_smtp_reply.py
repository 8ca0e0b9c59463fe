"""Replies are read byte for byte, and what is no reply is never taken for one."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sendledger_smtp.reply import (
    LINE_MAX_BYTES,
    REPLY_MAX_BYTES,
    Malformed,
    Reply,
    take_reply,
)


def read(raw: bytes) -> Reply:
    buffer = bytearray(raw)
    reply = take_reply(buffer)
    assert reply is not None
    assert not buffer
    return reply


@pytest.mark.parametrize(
    ("raw", "code", "lines"),
    [
        (b"250 Ok\r\n", 250, (b"Ok",)),
        (b"250\r\n", 250, (b"",)),
        (b"250-a\r\n250-\r\n250 b\r\n", 250, (b"a", b"", b"b")),
        (b"550 5.1.1 \xd3\xc3\xbb\xa7\r\n", 550, (b"5.1.1 \xd3\xc3\xbb\xa7",)),
        (b"550 nul\x00inside\r\n", 550, (b"nul\x00inside",)),
        (b"259 unknown code\n", 259, (b"unknown code",)),
    ],
)
def test_a_reply_keeps_every_byte(raw: bytes, code: int, lines: tuple[bytes, ...]) -> None:
    assert read(raw) == Reply(code=code, literal=raw, lines=lines)


def test_one_reply_is_taken_at_a_time() -> None:
    buffer = bytearray(b"250-a\r\n250 b\r\n354 go\r\n25")
    assert [take_reply(buffer) for _ in range(2)] == [
        read(b"250-a\r\n250 b\r\n"),
        read(b"354 go\r\n"),
    ]
    assert take_reply(buffer) is None
    assert buffer == b"25"


@pytest.mark.parametrize(
    "raw", [b"", b"2", b"250 no end", b"250-first\r\n", b"250-first\r\n250 se"]
)
def test_an_incomplete_reply_is_left_in_place(raw: bytes) -> None:
    buffer = bytearray(raw)
    assert take_reply(buffer) is None
    assert buffer == raw


@pytest.mark.parametrize(
    "raw",
    [
        b"\r\n",
        b"garbage\r\n",
        b"25 short\r\n",
        b"2500 long\r\n",
        b"150 no such class\r\n",
        b"650 no such class\r\n",
        b"250_odd\r\n",
        b"250 bare\rreturn\r\n",
        b"250-one\r\n550 other\r\n",
        b"250-one\r\ngarbage\r\n",
        b"x" * LINE_MAX_BYTES,
        b"250 " + b"x" * LINE_MAX_BYTES + b"\r\n",
        b"250-more\r\n" * (REPLY_MAX_BYTES // 10 + 1),
    ],
)
def test_what_is_no_reply_is_refused_and_left_in_place(raw: bytes) -> None:
    buffer = bytearray(raw)
    with pytest.raises(Malformed):
        take_reply(buffer)
    assert buffer == raw


@given(st.binary(max_size=200))
@example(b"250-a\r\n250 b\r\n")
def test_any_bytes_are_a_reply_an_incomplete_one_or_refused(raw: bytes) -> None:
    buffer = bytearray(raw)
    try:
        reply = take_reply(buffer)
    except Malformed:
        assert buffer == raw
        return
    taken = b"" if reply is None else reply.literal
    assert taken + buffer == raw


texts = st.binary(max_size=40).map(lambda raw: re.sub(rb"[\r\n]", b"?", raw))


@given(st.integers(200, 599), st.lists(texts, min_size=1, max_size=4), st.integers(1, 7))
def test_a_reply_is_the_same_however_its_bytes_arrive(
    code: int, lines: list[bytes], step: int
) -> None:
    *first, last = lines
    raw = b"".join(b"%d-%b\r\n" % (code, line) for line in first) + b"%d %b\r\n" % (code, last)
    buffer, found = bytearray(), []
    for start in range(0, len(raw), step):
        buffer += raw[start : start + step]
        found.append(take_reply(buffer))
    assert found[-1] == Reply(code=code, literal=raw, lines=tuple(lines))
    assert set(found[:-1]) <= {None}


def taken(pieces: list[bytes]) -> tuple[list[Reply], bytes | None]:
    """Return the replies in *pieces*, and what is left over; None when that can be no reply."""
    buffer, found = bytearray(), []
    try:
        for piece in pieces:
            buffer += piece
            while (reply := take_reply(buffer)) is not None:
                found.append(reply)
    except Malformed:
        return found, None
    return found, bytes(buffer)


fragments = st.sampled_from(
    [b"250 ok", b"250-", b"354", b"550 5.1.1 \xff\x00", b"\r\n", b"\n", b"\r"]
)
streams = st.lists(st.one_of(fragments, fragments, st.binary(max_size=4)), max_size=30)


@given(streams.map(b"".join), st.lists(st.integers(0, 200), max_size=8))
def test_any_stream_holds_the_same_replies_however_it_is_cut(raw: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(raw)]
    pieces = [raw[start:end] for start, end in itertools.pairwise(edges)]
    whole = taken([raw])
    assert taken(pieces) == whole
    replies, rest = whole
    said = b"".join(reply.literal for reply in replies)
    assert raw == said + rest if rest is not None else raw.startswith(said)


@pytest.mark.parametrize(
    ("raw", "enhanced", "disagrees"),
    [
        (b"550 5.1.1 no\r\n", "5.1.1", False),
        (b"550 5.1.1\r\n", "5.1.1", False),
        (b"550 no code\r\n", None, False),
        (b"550 5.1.1x\r\n", None, False),
        (b"550 3.1.1 no class\r\n", None, False),
        (b"554-relay\r\n554 5.7.1 no\r\n", "5.7.1", False),
        (b"550-5.1.1 a\r\n550 b\r\n", "5.1.1", False),
        (b"450 5.1.1 no\r\n", "5.1.1", True),
    ],
)
def test_an_enhanced_code_is_read_where_it_stands_and_never_invented(
    raw: bytes, enhanced: str | None, disagrees: bool
) -> None:
    reply = read(raw)
    assert (reply.enhanced, reply.enhanced_disagrees) == (enhanced, disagrees)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        (b"2.0.0 Ok: queued as 4XQ2yz0abc", "4XQ2yz0abc"),
        (b"2.0.0 OK id=1rXyZ1-0001Ab-2c", "1rXyZ1-0001Ab-2c"),
        (b"2.6.0 <a@b.example> [InternalId=8332, Hostname=x.example] Queued", "8332"),
        (b"Ok: 0100abc-def-000000", "0100abc-def-000000"),
        (b"Ok: message taken", None),
        (b"2.0.0 thank you", None),
        (b"queued as " + b"x" * 200, "x" * 128),
    ],
)
def test_the_provider_reference_is_the_queue_id_where_it_can_be_told(
    text: bytes, reference: str | None
) -> None:
    assert read(b"250 " + text + b"\r\n").reference == reference
