"""Rows whose message need not be written to know that it can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from sendledger.plugin import Writer

SAMPLES_OCTETS = (65_536, 4_096, 960, 240, 60)
"""How long a text is tried to be; the third fits a subject."""

_TEXTS = {str}
_UTF8_OCTETS_MAX = 4
"""Of one character."""


class PlainTexts:
    """Knows the rows that differ in nothing that matters from one that was written.

    A template asks of a value only what kind it is of and whether there is one, and a writer of plain
    text asks of a printable one only how long it is. So where a message was written with a long text in
    every variable, one can be written for each row that has a shorter printable text in each.
    """

    def __init__(self, names: Sequence[str], writer: Writer) -> None:
        """Look at the variables *names*, in their order, of what *writer* writes."""
        self._names = names
        self._form = "{" + ",".join(f'"{name}":"%s"' for name in names) + "}"
        self._octets_max = -1
        self._unproven = getattr(writer, "plain_text", False)

    def prove(self, can_write: Callable[[Mapping[str, str]], bool]) -> None:
        """Find out once how long texts can be; *can_write* tries variables beside an address that is good."""
        if not self._unproven:
            return
        self._unproven = False
        for octets in SAMPLES_OCTETS:
            if can_write(dict.fromkeys(self._names, "x" * octets)):
                self._octets_max = octets
                return

    def texts(
        self, addresses: Sequence[str], variables: Sequence[Mapping[str, Any]]
    ) -> list[str | None]:
        """Return of each row the variables as ``write_variables`` does if its message can surely be written.

        Else None, or when it is not plain to see.
        """
        if self._octets_max < 0:
            return [None] * len(variables)
        return self._written(addresses, [tuple(map(one.get, self._names)) for one in variables])

    def _written(
        self, addresses: Sequence[str], rows: Sequence[tuple[Any, ...]]
    ) -> list[str | None]:
        """Look at all of *rows* at once, at one half after the other if that says nothing."""
        if not rows or self._all_plain(addresses, rows):
            return [self._form % values for values in rows]
        half = len(rows) // 2
        if not half:
            return [None]
        return self._written(addresses[:half], rows[:half]) + self._written(
            addresses[half:], rows[half:]
        )

    def _all_plain(self, addresses: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> bool:
        values = list(chain.from_iterable(rows))
        if not (set(map(type, values)) <= _TEXTS and all(map(str.strip, values))):
            return False
        texts = "".join((*addresses, *values))
        # Beside what is not printable these two are all that JSON spells otherwise.
        if not texts.isprintable() or '"' in texts or "\\" in texts:
            return False
        length_max = max(map(len, addresses)) + max(map(len, map("".join, rows)))
        return length_max * (1 if texts.isascii() else _UTF8_OCTETS_MAX) <= self._octets_max
