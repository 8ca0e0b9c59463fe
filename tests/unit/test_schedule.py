"""When the next attempt is due: never sooner than asked, spread upward, bounded."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixed_policy import POLICY
from fold_rows import T0
from sendledger.ledger.durations import LONGEST, format_duration
from sendledger.ledger.policy import LookUps
from sendledger.ledger.schedule import look_after, probe_after, retry_at, spread

MINUTES = replace(POLICY, retry_delays=tuple(timedelta(minutes=m) for m in (1, 5, 30)), jitter=0.2)

chances = st.floats(0, 1, exclude_max=True)
waits = st.timedeltas(timedelta(0), timedelta(days=30))


def due_after(spent: int, *, floor: timedelta | None = None, chance: float = 0.0) -> timedelta:
    return retry_at(MINUTES, spent=spent, floor=floor, now=T0, chance=chance) - T0


@pytest.mark.parametrize(("spent", "minutes"), [(1, 1), (2, 5), (3, 30), (4, 30), (49, 30)])
def test_each_spent_attempt_waits_for_its_own_delay(spent: int, minutes: int) -> None:
    assert due_after(spent) == timedelta(minutes=minutes)


def test_what_was_not_spent_waits_only_for_its_floor() -> None:
    assert due_after(0) == timedelta(0)
    assert due_after(0, floor=timedelta(minutes=7)) == timedelta(minutes=7)


@given(st.integers(0, 60), st.none() | waits, chances)
@settings(deadline=None)
def test_jitter_only_lengthens_and_the_floor_is_respected(
    spent: int, floor: timedelta | None, chance: float
) -> None:
    plain, spread_out = due_after(spent, floor=floor), due_after(spent, floor=floor, chance=chance)
    assert plain >= (floor or timedelta(0))
    assert plain <= spread_out <= plain * 1.2 + timedelta(microseconds=1)


def test_one_outage_comes_back_spread_over_the_whole_jitter() -> None:
    dues = [due_after(2, chance=i / 10_000) for i in range(10_000)]
    seconds = [int(due.total_seconds()) for due in dues]
    assert min(dues) == timedelta(minutes=5)
    assert max(seconds.count(second) for second in set(seconds)) <= 500


@pytest.mark.parametrize("wait", [LONGEST * 2, timedelta.max])
def test_a_wait_beyond_the_calendar_is_cut(wait: timedelta) -> None:
    assert spread(MINUTES, wait, now=T0, chance=0.0) == T0 + LONGEST
    assert due_after(1, floor=wait, chance=0.5) == LONGEST * 1.1


@pytest.mark.parametrize(("probes", "seconds"), [(0, 30), (1, 60), (3, 240), (4, 300), (900, 300)])
def test_probes_double_their_distance_up_to_a_bound(probes: int, seconds: int) -> None:
    assert probe_after(POLICY, probes) == timedelta(seconds=seconds)


def test_no_duration_runs_backwards() -> None:
    with pytest.raises(ValueError, match="never negative"):
        format_duration(timedelta(seconds=-1))


@pytest.mark.parametrize(
    ("minutes", "expected"), [(0, 1), (0.5, 1), (1, 1), (2, 2), (15, 15), (300, 240), (9000, 240)]
)
def test_a_look_up_comes_as_late_again_as_the_wait_has_lasted_and_within_its_bounds(
    minutes: float, expected: int
) -> None:
    look_ups = LookUps(
        first=timedelta(minutes=1),
        silence=timedelta(minutes=30),
        longest=timedelta(hours=4),
        per_minute=60,
    )
    since = T0 - timedelta(minutes=minutes)
    assert look_after(look_ups, since=since, now=T0) == timedelta(minutes=expected)
