"""Limits of a channel: what settings admit, what fits beside what is open, and how turns are spaced."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendledger.ledger.limits import Limits, burst, fit, interval_us
from sendledger.settings.load import load_settings
from sendledger.settings.model import Settings
from sendledger.settings.problems import SettingsError

NAMES = ("in_flight", "per_second", "domain_in_flight", "domain_per_second")
DOMAINS = st.sampled_from([None, b"a", b"b"])
OPEN = st.dictionaries(DOMAINS, st.integers(1, 4))
BOUND = st.none() | st.integers(1, 6)


def settings(folder: Path, **limits: str) -> Settings:
    lines = "".join(f"      {name}: {found}\n" for name, found in limits.items())
    file = folder / "settings.yaml"
    file.write_text(
        f"database: embedded\nchannels:\n  email:\n    plugin: smtp\n    limits:\n{lines}"
        "    settings: {}\n",
        encoding="utf-8",
    )
    return load_settings(file, {})


def problem(folder: Path, **limits: str) -> str:
    with pytest.raises(SettingsError) as caught:
        settings(folder, **limits)
    [found] = caught.value.problems
    return found


def test_what_is_not_set_is_not_limited(tmp_path: Path) -> None:
    found = settings(tmp_path, per_second="0.5").channels["email"].limits.typed()
    assert found == Limits(per_second=0.5)
    assert not found.bounds_flight


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("zero", ["0", "0.0", "00", "-0", ".0"])
def test_a_limit_of_zero_is_refused_and_says_how_to_stop_a_channel(
    tmp_path: Path, name: str, zero: str
) -> None:
    assert problem(tmp_path, **{name: zero}) == (
        f"channels.email.limits.{name} (line 6): a limit of zero would stop the channel without"
        " saying so; to stop it, use sendledger pause"
    )


@pytest.mark.parametrize(
    ("name", "found", "told"),
    [
        ("in_flight", "-1", "expected a whole number of at least 1"),
        ("in_flight", "2.5", "expected a whole number of at least 1 and at most 100000"),
        ("in_flight", "many", "expected a whole number of at least 1 and at most 100000"),
        ("domain_in_flight", "100001", "expected a whole number of at most 100000"),
        ("per_second", "-3", "expected a number of at least 0.0001"),
        ("per_second", "1e-30", "expected a number of at least 0.0001"),
        ("domain_per_second", "nan", "expected a number of at least 0.0001 and at most 100000"),
        ("domain_per_second", "inf", "expected a number of at least 0.0001 and at most 100000"),
    ],
)
def test_any_other_limit_out_of_bounds_says_what_is_expected(
    tmp_path: Path, name: str, found: str, told: str
) -> None:
    assert problem(tmp_path, **{name: found}) == f"channels.email.limits.{name} (line 6): {told}"


@given(
    wanted=st.lists(DOMAINS, max_size=12),
    open_now=OPEN,
    in_flight=BOUND,
    domain_in_flight=BOUND,
)
def test_what_fits_never_passes_a_limit_and_nothing_that_fits_is_left_out(
    wanted: list[bytes | None],
    open_now: dict[bytes | None, int],
    in_flight: int | None,
    domain_in_flight: int | None,
) -> None:
    limits = Limits(in_flight=in_flight, domain_in_flight=domain_in_flight)
    numbered = list(enumerate(wanted))
    found = fit([((n, domain), domain) for n, domain in numbered], open_now, limits)

    parts = [*found.fits, *found.domain_full, *found.channel_full]
    assert sorted(n for n, _ in parts) == [n for n, _ in numbered]

    after = Counter(open_now)
    after.update(domain for _, domain in found.fits)
    if found.fits and in_flight is not None:
        assert after.total() <= in_flight
    for domain in {domain for _, domain in found.fits} - {None}:
        assert domain_in_flight is None or after[domain] <= domain_in_flight
    for _, full in found.domain_full:
        assert domain_in_flight is not None
        assert after[full] >= domain_in_flight
    if found.channel_full:
        assert in_flight is not None
        assert after.total() >= in_flight


def test_rows_without_a_domain_are_bounded_by_the_channel_alone() -> None:
    limits = Limits(in_flight=3, domain_in_flight=1)
    found = fit([(n, None) for n in range(5)], {}, limits)
    assert (found.fits, found.domain_full, found.channel_full) == ([0, 1, 2], [], [3, 4])


@given(st.floats(0.0001, 100_000))
def test_one_burst_and_a_second_of_turns_are_at_most_a_fifth_more_than_the_limit_or_one(
    rate: float,
) -> None:
    between = 1_000_000 // interval_us(rate)
    assert burst(rate) >= 1
    assert between + burst(rate) <= rate * 1.2 + 1
