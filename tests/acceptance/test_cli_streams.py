"""Streams that are closed, full or of another encoding, and Ctrl-C before there is anything to interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

SETTINGS = "database: embedded\nstate_dir: state\n"
CHANNELS = """\
channels:
  email:
    plugin: smtp
    settings: {host: 127.0.0.1, tls: none, sender: a@school.test, return_path_domain: school.test}
"""
BATCH = """\
report: r
content_revision: "1"
channel: email
purpose: p
authorization: {id: A-1, by: head, at: 2026-03-02T09:00:00+00:00}
recipients: {id: id, destination: email}
content: {subject: s, text: t}
"""
DEADLINE_S = 30.0
CHECK = [sys.executable, "-m", "sendledger", "check"]
INTERRUPTED_WHILE_IMPORTING = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "sendledger.bootstrap":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from sendledger.cli import main
main(["check"])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sendledger.yaml").write_text(SETTINGS)
    return tmp_path


def until(seen: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait for what *process* does."""
    deadline = time.monotonic() + DEADLINE_S
    while not seen():
        assert time.monotonic() < deadline, "it never came"
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.01)
            pytest.fail("the process ended before")


def shell(folder: Path, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as ``"$@"`` in *line*."""
    return subprocess.run(
        ["/bin/sh", "-c", line, "sh", *CHECK],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("closing", ["<&- >&- 2>&-", ">&-", "2>&-"])
def test_a_closed_stream_is_nobody_s_to_take(folder: Path, closing: str) -> None:
    ran = shell(folder, f'"$@" {closing}')
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("options", ["", "--json"])
def test_a_full_disk_is_told_in_a_sentence(folder: Path, options: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full, which only Linux has")
    ran = shell(folder, f'"$@" {options} >/dev/full')
    assert ran.returncode == 2
    assert ran.stderr == (
        "sendledger: the output cannot be written (no space left on device);"
        " choose another place for it\n"
    )


@pytest.mark.parametrize("options", ["", "--json"])
def test_who_reads_no_further_is_told_nothing(folder: Path, options: str) -> None:
    ran = shell(folder, f'{{ "$@" {options}; echo "$?" >&3; }} 3>code | true; cat code')
    assert (ran.stdout, ran.stderr) == ("1\n", "")


def test_a_file_is_found_and_named_in_a_locale_without_its_letters(folder: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    (folder / "früh.yaml").write_text(SETTINGS)
    shown = shell(folder, '"$@" --config früh.yaml', **plain)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("fr\\udcc3\\udcbch.yaml: understood")


def test_ctrl_c_is_quiet_while_the_command_is_still_being_loaded(folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_IMPORTING],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (128 + signal.SIGINT, "", "")


def test_sigterm_ends_a_command_as_ctrl_c_does_in_whatever_it_waits_for(folder: Path) -> None:
    (folder / "sendledger.yaml").write_text(SETTINGS + CHANNELS)
    (folder / "batch.yaml").write_text(BATCH)
    command = [sys.executable, "-m", "sendledger", "template", "preview", "batch.yaml", "-r", "-"]
    with subprocess.Popen(
        [*command, "--out", "looks"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"id,email\n1,pat@home.test\n")
        process.stdin.flush()
        until((folder / "looks/line-000002.txt").exists, process)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out.strip(), err.strip()) == (128 + signal.SIGINT, b"", b"")
