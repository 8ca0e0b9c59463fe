"""Secrets: given by reference, resolved at load, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from sendledger.settings.resolve import Resolver
from sendledger.settings.secret import Secret
from sendledger.settings.yaml_text import parse_yaml

VALUE = "hunter22"


def resolve(text: str, folder: Path, **env: str) -> tuple[object, list[str]]:
    resolver = Resolver(env=env, folder=folder)
    data = resolver.resolve(parse_yaml(text, file="x.yaml"))
    return data, resolver.problems


def private(file: Path, content: bytes, mode: int = 0o600) -> None:
    file.write_bytes(content)
    file.chmod(mode)


def test_a_variable_and_a_file_become_secrets_byte_for_byte(tmp_path: Path) -> None:
    private(tmp_path / "key", b" pa$USER${X}word\n\n")
    data, problems = resolve(
        "a: {$env: NAME}\nb: [{$file: key}]\nc: ${NAME}\n", tmp_path, NAME="pa$USERword "
    )
    assert problems == []
    assert data == {
        "a": Secret("pa$USERword "),
        "b": [Secret(" pa$USER${X}word\n")],
        "c": "${NAME}",
    }
    assert "USER" not in repr(data).replace("${NAME}", "")


@pytest.mark.parametrize("content", [b"hunter22", b"hunter22\n", b"hunter22\r\n"])
def test_one_line_end_is_no_part_of_a_secret_in_a_file(tmp_path: Path, content: bytes) -> None:
    private(tmp_path / "key", content)
    assert resolve("a: {$file: key}", tmp_path) == ({"a": Secret(VALUE)}, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{$env: UNSET}", "environment variable UNSET is not set"),
        ("{$env: EMPTY}", "environment variable EMPTY is set but empty"),
        ("{$env: 'hunter22!'}", "$env takes the name of a variable"),
        ("{$env: [A]}", "a secret is one reference"),
        ("{$env: A, $file: b}", "a secret is one reference"),
        ("{$env: A, more: b}", "a secret is one reference"),
        ("{$file: none}", "cannot be read: no such file or directory"),
        ("{$file: .}", "not a regular file"),
        ("{$file: shared}", "can be used by other users; run chmod 600"),
        ("{$file: empty}", "the secret's file is empty"),
        ("{$file: binary}", "not UTF-8"),
        ("{$file: large}", "larger than 65536 bytes"),
        ('{$file: "a\\0b"}', "its name is not one"),
    ],
)
def test_a_reference_that_leads_nowhere_is_named_by_path_and_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    private(tmp_path / "shared", b"hunter22", 0o640)
    private(tmp_path / "empty", b"\n")
    private(tmp_path / "binary", b"hunter22\xff")
    private(tmp_path / "large", b"hunter22" * 10_000)
    _, problems = resolve(f"a:\n  b: {text}\n", tmp_path, EMPTY="", A=VALUE)
    assert len(problems) == 1
    assert problems[0].startswith("a.b (line 2): ")
    assert problem in problems[0]
    assert VALUE not in problems[0]


def test_nothing_shows_a_secret() -> None:
    secret = Secret(VALUE)
    assert {str(secret), repr(secret), f"{secret}", f"{secret!r}"} == {"***"}
    assert secret.reveal() == VALUE
