"""The values that decide, in the form the decisions read them; one revision names them all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUps:
    """When a provider is asked what became of an attempt, and how often in a minute over all workers.

    ``first`` after an unknown result, ``silence`` after an acceptance that nothing followed; then ever
    more rarely, at most ``longest`` apart.
    """

    first: timedelta
    silence: timedelta
    longest: timedelta
    per_minute: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How often, how long and how patiently. All durations are already scaled.

    ``retry_delays`` are the waits after the first, second, ... spent attempt: their number plus one is
    the ceiling. ``jitter`` lengthens a wait by up to that fraction, never shortens it. ``look_up`` is None
    where nobody can be asked.
    """

    revision: str
    retry_delays: tuple[timedelta, ...]
    jitter: float
    attempts_hard_max: int
    give_up_after: timedelta | None
    unknown_wait: timedelta
    unknown_then: Literal["hold", "retry"]
    evidence_wait: timedelta
    back_off_intents: int
    probe: timedelta
    probe_max: timedelta
    task_after: timedelta
    claims_max: int
    scale: float = 1.0
    look_up: LookUps | None = None

    @property
    def evidence_due(self) -> timedelta:
        """How long after its opening an accepted attempt's evidence is overdue; its window may go on."""
        if self.look_up is None:
            return self.evidence_wait
        return min(self.look_up.silence, self.evidence_wait)

    @property
    def ceiling(self) -> int:
        """How many spent attempts there may be."""
        return len(self.retry_delays) + 1
