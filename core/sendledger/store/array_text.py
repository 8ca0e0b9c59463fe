"""Arrays in the text form that Postgres reads. The driver adapts every item by itself, 2 us each."""

from __future__ import annotations

from collections.abc import Sequence


def bytes_array(items: Sequence[bytes], *, item_bytes: int) -> str:
    """Return *items*, each exactly *item_bytes* long, as ``bytea []``. Raises ``ValueError``."""
    if not set(map(len, items)) <= {item_bytes}:
        raise ValueError(f"expected items of {item_bytes} bytes")
    if not items:
        return "{}"
    listed = b"".join(items).hex(",", item_bytes).replace(",", r'","\\x')
    return rf'{{"\\x{listed}"}}'
