"""Rows in the binary form of COPY (PostgreSQL's page on COPY, "Binary Format"), written column by column.

The driver adapts each value by itself, which costs more than the row. And an error in the text form
quotes the line it is in to whoever reads the server's log; one in this form names a line and a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from struct import Struct

NO_FIELD = b"\xff\xff\xff\xff"
"""A field that is null."""

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_BIGINT = Struct(">iq")
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def copy_stream(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield *blocks* of rows as COPY reads them: between a header and a trailer."""
    yield _HEADER
    yield from blocks
    yield _TRAILER


def copy_rows(*columns: Iterable[bytes], count: int, constants: Sequence[bytes] = ()) -> bytes:
    """Return *count* rows: a field of each of *columns*, and then the *constants*, the same in all."""
    width = (len(columns) + len(constants)).to_bytes(2, "big")
    shared = b"".join(constants)
    fields = zip(repeat(width, count), *columns, repeat(shared, count), strict=True)
    return b"".join(chain.from_iterable(fields))


def bigint_fields(numbers: Iterable[int]) -> list[bytes]:
    """Return *numbers* as ``bigint``."""
    return list(map(_BIGINT.pack, repeat(_BIGINT.size - 4), numbers))


def text_fields(texts: Iterable[str]) -> list[bytes]:
    """Return *texts* as ``text`` or ``json``, in UTF-8."""
    return [len(octets).to_bytes(4, "big") + octets for octets in map(str.encode, texts)]


def bigint_field(number: int) -> bytes:
    """Return *number* as ``bigint``."""
    (field,) = bigint_fields([number])
    return field


def smallint_field(number: int) -> bytes:
    """Return *number* as ``smallint``."""
    return b"\0\0\0\x02" + number.to_bytes(2, "big", signed=True)


def instant_field(instant: datetime | None) -> bytes:
    """Return *instant* as ``timestamptz``: microseconds since 2000."""
    return NO_FIELD if instant is None else bigint_field((instant - _EPOCH) // _MICROSECOND)


def bytes_fields(items: Sequence[bytes | None], *, item_bytes: int) -> list[bytes]:
    """Return *items*, each of *item_bytes* or None, as ``bytea``. Raises ``ValueError``."""
    length = item_bytes.to_bytes(4, "big")
    if not {len(item) for item in items if item is not None} <= {item_bytes}:
        raise ValueError(f"expected items of {item_bytes} bytes")
    return [NO_FIELD if item is None else length + item for item in items]
