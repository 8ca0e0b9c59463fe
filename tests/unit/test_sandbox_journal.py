"""The journal of accepted messages."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sendledger_sandbox import Accepted, JournalFault, read_journal
from sendledger_sandbox.journal import Journal, describe

MESSAGE = (
    b"Message-ID: <one@sender.example>\r\nsendledger-token:\r\n abc\r\n\r\nMessage-ID: <body>\r\n"
)


@asynccontextmanager
async def opened(
    path: Path, *, fsync: bool = True, keep: Path | None = None
) -> AsyncIterator[Journal]:
    journal = Journal(path, fsync=fsync, keep=keep).open()
    try:
        yield journal
    finally:
        await journal.close()


def entry(rcpt: str = "pat@example.test", message: bytes = MESSAGE) -> Accepted:
    return describe(mail_from="b+abc@sender.example", envid="abc", rcpt=[rcpt], message=message)


def test_an_entry_says_what_the_message_carried() -> None:
    found = entry()
    assert (found.message_id, found.token) == ("<one@sender.example>", "abc")
    assert (found.bytes, found.sha256) == (len(MESSAGE), hashlib.sha256(MESSAGE).hexdigest())


def test_a_header_that_stands_in_the_body_only_is_not_reported() -> None:
    found = entry(message=b"Subject: t\r\n\r\nMessage-ID: <body>\r\n")
    assert (found.message_id, found.token) == (None, None)


@pytest.mark.parametrize("fsync", [True, False])
async def test_what_was_appended_is_read_back_as_it_was(tmp_path: Path, fsync: bool) -> None:
    path = tmp_path / "journal"
    async with opened(path, fsync=fsync) as journal:
        written = [await journal.append(entry(f"p{i}@example.test"), MESSAGE) for i in range(3)]
    assert read_journal(path) == written
    assert [found.n for found in written] == [1, 2, 3]


async def test_appends_that_wait_together_are_all_written_once_and_numbered_without_gaps(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal"
    async with opened(path) as journal:
        entries = (entry(f"p{i}@example.test") for i in range(100))
        written = await asyncio.gather(*(journal.append(found, MESSAGE) for found in entries))
    assert [found.n for found in read_journal(path)] == list(range(1, 101))
    assert sorted(written, key=lambda found: found.n) == read_journal(path)


async def test_appends_that_wait_together_share_an_fsync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    async with opened(tmp_path / "journal") as journal:
        synced.clear()
        await asyncio.gather(*(journal.append(entry(), MESSAGE) for _ in range(100)))
    assert 1 <= len(synced) <= 2


async def test_an_entry_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal") as journal:
        written = await journal.append(entry(), MESSAGE)
        assert read_journal(tmp_path / "journal") == [written]


async def test_a_line_that_a_crash_cut_off_is_left_out_and_then_removed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    async with opened(path) as journal:
        await journal.append(entry("one@example.test"), MESSAGE)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-20])
    assert [found.rcpt for found in read_journal(path)] == [("one@example.test",)]
    async with opened(path) as journal:
        second = await journal.append(entry("two@example.test"), MESSAGE)
    assert second.n == 2
    assert [found.rcpt[0] for found in read_journal(path)] == [
        "one@example.test",
        "two@example.test",
    ]


@pytest.mark.parametrize("line", [b"{}", b"[]", b"not json", b"7", b'{"at": "x", "rcpt": []}'])
def test_a_complete_line_that_is_no_entry_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "journal"
    path.write_bytes(line + b"\n")
    with pytest.raises(JournalFault, match=r"journal \(line 1\)"):
        read_journal(path)


async def test_a_group_that_cannot_be_synced_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "journal"
    async with opened(path) as journal:
        await journal.append(entry("one@example.test"), MESSAGE)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space"):
                await journal.append(entry("two@example.test"), MESSAGE)
        assert [found.rcpt[0] for found in read_journal(path)] == ["one@example.test"]
        assert (await journal.append(entry("three@example.test"), MESSAGE)).n == 2


async def test_messages_are_kept_under_their_number(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal", keep=tmp_path / "kept") as journal:
        await journal.append(entry(), MESSAGE)
    assert (tmp_path / "kept" / "000001.eml").read_bytes() == MESSAGE
