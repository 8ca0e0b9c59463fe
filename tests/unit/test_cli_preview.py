"""What a preview writes can be opened: mail as mail, a text as a text, and anything else as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from sendledger.cli import preview


@pytest.mark.parametrize(
    ("message", "suffixes"),
    [
        (b"Date: x\r\nFrom: a@school.test\r\n\r\nhello", {".eml", ".txt"}),
        ("Dear Zoë".encode(), {".txt"}),
        (b"\xff\xfe", {".raw"}),
        (b"a\0b", {".raw"}),
    ],
)
def test_the_name_of_a_file_says_what_opens_it(
    tmp_path: Path, message: bytes, suffixes: set[str]
) -> None:
    preview._write_message(tmp_path / "line-000002", message)
    assert {path.suffix for path in tmp_path.iterdir()} == suffixes
