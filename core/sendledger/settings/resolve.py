"""From a tree of texts to plain values, with every secret reference followed."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sendledger.settings.problems import KeyPath, problem
from sendledger.settings.secret import Secret
from sendledger.settings.yaml_text import Block, Items, Node, Text

REFERENCES = frozenset({"$env", "$file"})
SECRET_MAX_BYTES = 65_536

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class _UnresolvedError(Exception):
    """A reference leads nowhere; the sentence names the reference, never a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolver:
    """Follows references: variables of *env*, and files relative to *folder*.

    Every failure is added to ``problems``; a stand-in secret takes its place, so that one reading
    reports all of them.
    """

    env: Mapping[str, str] = field(repr=False)
    folder: Path
    problems: list[str] = field(default_factory=list)

    def resolve(self, node: Node, path: KeyPath = ()) -> Any:
        """Return *node* as ``str``, ``list`` and ``dict``, with a ``Secret`` for each reference."""
        match node:
            case Text():
                return node.value
            case Items():
                return [self.resolve(item, (*path, n)) for n, item in enumerate(node.items)]
            case Block() if REFERENCES & node.entries.keys():
                return self._follow(node, path)
            case Block():
                return {
                    key: self.resolve(entry, (*path, key)) for key, entry in node.entries.items()
                }

    def _follow(self, node: Block, path: KeyPath) -> Secret:
        try:
            return Secret(self._read(node))
        except _UnresolvedError as error:
            self.problems.append(problem(path, node.line, str(error)))
            return Secret("")

    def _read(self, node: Block) -> str:
        (kind, target), *more = node.entries.items()
        if more or not isinstance(target, Text):
            raise _UnresolvedError(
                "a secret is one reference: {$env: NAME} or {$file: path}, and nothing beside it"
            )
        return self._variable(target.value) if kind == "$env" else self._file(target.value)

    def _variable(self, name: str) -> str:
        if not _VARIABLE.fullmatch(name):
            raise _UnresolvedError(
                "$env takes the name of a variable: letters, digits and underscores"
            )
        value = self.env.get(name)
        if value is None:
            raise _UnresolvedError(
                f"environment variable {name} is not set; set it, or use {{$file: path}}"
            )
        if not value:
            raise _UnresolvedError(f"environment variable {name} is set but empty")
        return value

    def _file(self, name: str) -> str:
        try:
            text = _read_private(self.folder / name)
        except OSError as error:
            reason = (error.strerror or "unknown error").lower()
            raise _UnresolvedError(f"the secret's file cannot be read: {reason}") from None
        except ValueError:
            raise _UnresolvedError(
                "the secret's file is not UTF-8 text, or its name is not one"
            ) from None
        if not text:
            raise _UnresolvedError("the secret's file is empty")
        return text


def _read_private(file: Path) -> str:
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):
        raise _UnresolvedError("the secret's file is not a regular file")
    if stat.S_IMODE(status.st_mode) & _OTHERS:
        raise _UnresolvedError("the secret's file can be used by other users; run chmod 600 on it")
    if status.st_size > SECRET_MAX_BYTES:
        raise _UnresolvedError(f"the secret's file is larger than {SECRET_MAX_BYTES} bytes")
    text = file.read_bytes().decode()
    # An editor ends the last line; the line end is not part of the secret.
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
