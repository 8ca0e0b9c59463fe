"""An observer that keeps what it heard."""

from __future__ import annotations

from collections.abc import Sequence

from sendledger.plugin import Observed, hookimpl

heard: list[Observed] = []


@hookimpl
def sendledger_observed(observations: Sequence[Observed]) -> None:
    heard.extend(observations)
