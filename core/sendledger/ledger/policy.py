"""The values that decide, in the form the decisions read them; one revision names them all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How often, how long and how patiently. All durations are already scaled.

    ``retry_delays`` are the waits after the first, second, ... spent attempt: their number plus one is
    the ceiling. ``jitter`` lengthens a wait by up to that fraction, never shortens it.
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

    @property
    def ceiling(self) -> int:
        """How many spent attempts there may be."""
        return len(self.retry_delays) + 1
