"""A policy that answers for one candidate, however many it was asked about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sendledger.plugin import Candidate, Go, Verdict, hookimpl


@hookimpl
async def sendledger_authorize(candidates: Sequence[Candidate]) -> Sequence[Verdict]:
    return [Go(until=candidates[0].now + timedelta(hours=1))]
