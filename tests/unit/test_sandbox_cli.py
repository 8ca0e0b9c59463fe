"""What keeps a sandbox from serving is told in a sentence that names it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from sendledger_sandbox.cli import main


@pytest.mark.parametrize("kind", ["smtp", "twilio"])
@pytest.mark.parametrize("port", ["65536", "-1", "x"])
def test_a_port_that_there_is_not_is_refused(
    tmp_path: Path, kind: str, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([kind, f"--port={port}", "--journal", str(tmp_path / "journal")])
    assert "argument --port: expected a number from 0 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["smtp", "twilio"])
def test_a_port_in_use_is_named(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = main([kind, f"--port={port}", "--journal", str(tmp_path / "journal")])
    assert code == 2
    assert capsys.readouterr().err == (
        f"sendledger_sandbox: cannot serve: 127.0.0.1:{port}: address already in use\n"
    )


@pytest.mark.parametrize("kind", ["smtp", "twilio"])
def test_a_journal_without_a_folder_is_named(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "missing" / "journal"
    assert main([kind, "--port=0", "--journal", str(journal)]) == 2
    assert capsys.readouterr().err == (
        f"sendledger_sandbox: cannot serve: {journal}: no such file or directory\n"
    )
