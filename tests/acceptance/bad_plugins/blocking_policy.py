"""A policy that holds up the whole event loop, for longer than it may, and then says go."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

from sendledger.plugin import Candidate, Go, Verdict, hookimpl

TOO_LONG_S = 5.5


@hookimpl
async def sendledger_authorize(candidates: Sequence[Candidate]) -> Sequence[Verdict]:
    time.sleep(TOO_LONG_S)  # noqa: ASYNC251 - the fault itself
    return [Go(until=candidate.now + timedelta(hours=1)) for candidate in candidates]
