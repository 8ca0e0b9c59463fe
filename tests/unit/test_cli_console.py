"""What is printed for a person: no line of a pipe is broken, nothing is cut, and JSON logs are JSON."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import AsyncIterator

import pytest
from rich.table import Table

from sendledger.cli.console import page, show_table
from sendledger.cli.options import who_asks
from sendledger.cli.progress import SLOW_LINE_ROWS, watched
from sendledger.cli.running import Teller, set_up_logs

LONG = "spring " * 40


def test_a_pipe_gets_every_line_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    page().print(LONG)
    assert capsys.readouterr().out == f"{LONG}\n"


@pytest.mark.parametrize(("columns", "width"), [("40", 80), ("80", 80), ("200", 200)])
def test_a_page_is_as_wide_as_the_terminal_and_never_too_narrow_for_a_table(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert page().width == width


@pytest.mark.parametrize("columns", ["80", None])
def test_no_line_of_a_table_ends_in_blanks_and_none_is_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str | None
) -> None:
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    table = Table(box=None, pad_edge=False)
    for heading in ("setting", "value"):
        table.add_column(heading, overflow="fold")
    table.add_row("short", "x" * 100)
    table.add_row("long", "y")
    show_table(page(), table)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [line.rstrip() for line in lines]
    assert "".join(lines).count("x") == 100
    assert len(lines) == (4 if columns else 3)


def test_names_of_pictures_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    page().print("purpose:mail: since")
    assert capsys.readouterr().out.strip() == "purpose:mail: since"


def test_a_json_log_holds_nothing_but_json(capsys: pytest.CaptureFixture[str]) -> None:
    teller = set_up_logs(as_json=True, level="INFO")
    try:
        teller.tell("metrics at http://127.0.0.1:9464/metrics")
        teller.warn("channel [sms] reads receipts")
    finally:
        set_up_logs(as_json=False, level="info")
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["level"], line["event"]) for line in told] == [
        ("info", "metrics at http://127.0.0.1:9464/metrics"),
        ("warning", "channel [sms] reads receipts"),
    ]


class ClosedPipe(io.StringIO):
    """Refuses every line, as a pipe that nobody reads does."""

    def write(self, _: str) -> int:
        raise BrokenPipeError


def test_who_stops_listening_does_not_end_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", ClosedPipe())
    teller = Teller(as_json=False)
    for sentence in ("working", "still working"):
        teller.tell(sentence)  # the library's own console would end the process


async def blocks() -> AsyncIterator[list[int]]:
    for _ in range(2):
        yield [0] * SLOW_LINE_ROWS


async def test_who_stops_listening_does_not_end_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", ClosedPipe())
    with watched(blocks(), total_bytes=None, bytes_read=lambda: 0, slow=True) as watching:
        assert [len(block) async for block in watching] == [SLOW_LINE_ROWS] * 2


def test_a_user_without_a_name_is_recorded_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_001)
    assert who_asks() == "uid 4000000001"
