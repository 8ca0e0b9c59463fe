"""A policy that never answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sendledger.plugin import Candidate, Deny, Verdict, hookimpl


@hookimpl
async def sendledger_authorize(candidates: Sequence[Candidate]) -> Sequence[Verdict]:
    await asyncio.Event().wait()
    return [Deny(rule="silent.never-said")] * len(candidates)
