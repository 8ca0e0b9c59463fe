"""A deployment plugin that fails where a destination is read, and repeats it."""

from __future__ import annotations

from sendledger.plugin import Destination, hookimpl


@hookimpl(tryfirst=True)
def sendledger_destination(text: str) -> Destination | None:
    raise TypeError(f"what is {text}?")
