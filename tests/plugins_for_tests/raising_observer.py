"""An observer that fails on every batch, with a destination in its exception."""

from __future__ import annotations

from sendledger.plugin import hookimpl


@hookimpl
def sendledger_observed() -> None:
    raise RuntimeError("could not tell pupil@school.example")
