"""May these go now? All policies are asked; the strictest answer about each candidate wins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import reduce
from typing import Any

from sendledger.plugin.calls import call_list
from sendledger.plugin.channel import Candidate, Deny, Go, Hold, Verdict, Verdicts, Wait
from sendledger.plugin.checks import Member
from sendledger.plugin.faults import Faults, PluginFault

HOOK = "sendledger_authorize"
STRICTNESS: dict[type[Verdict], int] = {Go: 0, Wait: 1, Hold: 2, Deny: 3}


class Authorization:
    """The policies among the plugins, asked together and each within a time limit.

    A policy that raises, gives a wrong answer or takes longer than *within* holds all candidates, with its
    name as the cause: a broken policy never lets anything go. Without any policy a candidate may go
    for *go_for*.
    """

    def __init__(
        self, members: Sequence[Member], faults: Faults, *, within: timedelta, go_for: timedelta
    ) -> None:
        self._policies = [
            (member.name, call_list(HOOK, [member])) for member in members if HOOK in member.hooks
        ]
        self._faults = faults
        self._within = within
        self._go_for = go_for

    async def ask(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        """Return one verdict per candidate, in their order; about nobody, nobody is asked."""
        if not self._policies or not candidates:
            return [Go(until=candidate.now + self._go_for) for candidate in candidates]
        asked = tuple(candidates)
        answers = await asyncio.gather(
            *(self._ask(name, policy, asked) for name, policy in self._policies)
        )
        return [reduce(stricter, verdicts) for verdicts in zip(*answers, strict=True)]

    async def _ask(
        self, name: str, policy: Callable[..., Any], candidates: tuple[Candidate, ...]
    ) -> Verdicts:
        try:
            return await self._answer(name, policy, candidates)
        except PluginFault as fault:
            self._faults.record(fault)
            return [Hold(rule="policy.failing", cause=name)] * len(candidates)

    async def _answer(
        self, name: str, policy: Callable[..., Any], candidates: tuple[Candidate, ...]
    ) -> Verdicts:
        (answer,) = policy(candidates=candidates)
        began = asyncio.get_running_loop().time()
        late = PluginFault(
            f"took longer than {self._within.total_seconds():g} s", plugin=name, hook=HOOK
        )
        try:
            async with asyncio.timeout(self._within.total_seconds()):
                verdicts: Verdicts = await answer
        except TimeoutError:
            raise late from None
        # One that blocks the loop also keeps the clock of the limit from striking.
        if asyncio.get_running_loop().time() - began > self._within.total_seconds():
            raise late
        if len(verdicts) != len(candidates):
            reason = f"gave {len(verdicts)} verdicts for {len(candidates)} candidates"
            raise PluginFault(reason, plugin=name, hook=HOOK)
        return verdicts


def stricter(one: Verdict, other: Verdict) -> Verdict:
    """Return the stricter of two verdicts about one candidate; of equals, the one that binds longer.

    Two goes hold until the earlier end, two waits until the later; otherwise the first keeps its rule.
    """
    match one, other:
        case Go(), Go():
            return min(one, other, key=lambda go: go.until)
        case Wait(), Wait():
            return max(one, other, key=lambda wait: wait.until)
        case _:
            return max(one, other, key=lambda verdict: STRICTNESS[type(verdict)])
