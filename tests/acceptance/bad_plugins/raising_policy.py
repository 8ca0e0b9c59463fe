"""A policy that fails, with what it was asked about in its exception."""

from __future__ import annotations

from collections.abc import Sequence

from sendledger.plugin import Candidate, Verdict, hookimpl


@hookimpl
async def sendledger_authorize(candidates: Sequence[Candidate]) -> Sequence[Verdict]:
    raise KeyError("no consent on file for pat@home.test", len(candidates))
