"""Keeps every message that a channel writes, by the correlation token it was written for."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from sendledger.plugin import Addressee, Writer, hookimpl

kept: dict[str, bytes] = {}


@dataclass(frozen=True, slots=True)
class KeepingWriter:
    writer: Writer

    def write(self, addressee: Addressee) -> bytes:
        message = self.writer.write(addressee)
        kept[addressee.token] = message
        return message


@hookimpl(wrapper=True)
def sendledger_prepare() -> Generator[None, Writer, Writer]:
    return KeepingWriter((yield))
