"""Whatever was met is never taken for new, in memory that does not grow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sendledger.journal.met import PLACE_BYTES, Met

keys = st.builds(
    bytes.__add__,
    st.sampled_from([bytes(PLACE_BYTES), b"\xff" * PLACE_BYTES, b"\x01" * PLACE_BYTES]),
    st.binary(min_size=2, max_size=2),
)


@given(st.lists(keys, max_size=30))
def test_no_key_is_new_twice(given_keys: list[bytes]) -> None:
    met = Met()
    new = [key for key in given_keys if met.add(key)]
    assert len(set(new)) == len(new)
    assert not any(map(met.add, given_keys))


def test_keys_that_begin_differently_are_new() -> None:
    met = Met()
    assert all(met.add(number.to_bytes(PLACE_BYTES, "big") + bytes(13)) for number in range(1000))


def test_of_two_that_begin_alike_the_second_is_in_doubt() -> None:
    met = Met()
    assert met.add(bytes(15) + b"a")
    assert not met.add(bytes(15) + b"b")
