"""What is wrong with a settings file, said in sentences that never quote a value."""

from __future__ import annotations

from collections.abc import Sequence

KeyPath = tuple[str | int, ...]
"""Keys and positions from the root of a file to a node."""


class SettingsError(Exception):
    """A settings file cannot be used. ``problems`` holds one sentence each, with path and line.

    No sentence quotes a value found in the file: it might be a secret in the wrong place.
    """

    def __init__(self, problems: Sequence[str], *, file: str) -> None:
        super().__init__("\n".join(f"{file}: {problem}" for problem in problems))
        self.problems = list(problems)
        self.file = file


def problem(path: KeyPath, line: int, sentence: str, *, column: int = 0) -> str:
    """Return ``channels.email.slots (line 5): sentence``; the root has no path, and 0 is no column."""
    where = ".".join(map(str, path))
    place = f"line {line}, column {column}" if column else f"line {line}"
    return f"{where} ({place}): {sentence}" if where else f"{place}: {sentence}"
