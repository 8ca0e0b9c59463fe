"""Which intent keys a run of planning may have met before, in memory that does not grow."""

from __future__ import annotations

from mmap import mmap

PLACE_BYTES = 3
"""Of a key, which is as good as random: 16 MB of marks, of which a million keys leave 94 % free."""


class Met:
    """Notes keys. Sure of a key that is new; of another it may only seem that it was met."""

    def __init__(self) -> None:
        # Zeros, and none of it there before it is used.
        self._marks = mmap(-1, 1 << 8 * PLACE_BYTES)

    def add(self, key: bytes) -> bool:
        """Note *key*; True when it was surely not met before."""
        place = int.from_bytes(key[:PLACE_BYTES], "big")
        if self._marks[place]:
            return False
        self._marks[place] = 1
        return True
