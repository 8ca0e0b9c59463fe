"""CSV is read block by block, and what is in it does not depend on where a block ends."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sendledger.cli import lines
from sendledger.cli.columns import Columns
from sendledger.cli.errors import UsageFault
from sendledger.cli.lines import open_lines
from sendledger.cli.recipients_csv import CsvRecipients
from sendledger.journal.batch import Entry, Reject, Row

COLUMNS = Columns(recipient_id="id", destination="mail", variables={"v": "v"}, optional=frozenset())
HEADER = "id,mail,v\n"

fields = st.text(st.sampled_from('ab ,"\n\r\u00fc\u2028\x0c;'), max_size=5)
records = st.lists(st.lists(fields, min_size=1, max_size=4), max_size=6)


async def read(file: Path) -> list[Entry]:
    with open_lines(file) as opened:
        return [
            e for block in [b async for b in CsvRecipients(opened).blocks(COLUMNS)] for e in block
        ]


def expected(content: str) -> list[tuple[int, list[str]]]:
    """Return the records below the header, each with the line it begins on."""
    reader = csv.reader(io.StringIO(content, newline="\n"), strict=True)
    found, line = [], 1
    for record in reader:
        if record:
            found.append((line, record))
        line = reader.line_num + 1
    return found[1:]


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=records, block=st.integers(1, 40), end=st.sampled_from(["\n", "\r\n"]), last=st.booleans()
)
@example(rows=[["a", "b", "x\ny"], ["c", "d", ""]], block=13, end="\n", last=False)
async def test_blocks_may_end_anywhere(
    tmp_path: Path, rows: list[list[str]], block: int, end: str, last: bool
) -> None:
    written = io.StringIO(newline="")
    csv.writer(written, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
    content = HEADER + written.getvalue() + end * 2 + "s,m,v" + end * last
    file = tmp_path / "rows.csv"
    file.write_bytes(content.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        found = await read(file)
    assert [told(entry) for entry in found] == [
        (line, record if len(record) == 3 else None) for line, record in expected(content)
    ]


def told(entry: Entry) -> tuple[int, list[str] | None]:
    if isinstance(entry, Reject):
        return entry.line, None
    assert isinstance(entry, Row)
    return entry.line, [entry.recipient_id, entry.destination, entry.variables["v"]]


@pytest.mark.parametrize("before", [0, 1, 2_000, 30_000])
@pytest.mark.parametrize("after", [b"", b"\n", b"\ns,m,v", b"\ns,m,v\n"])
async def test_what_is_not_utf_8_is_told_with_its_line(
    tmp_path: Path, before: int, after: bytes
) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(HEADER.encode() + b"s,m,v\n" * before + b"s,\xff,v" + after)
    with pytest.raises(UsageFault, match=f"line {before + 2}: not UTF-8"):
        await read(file)


@pytest.mark.parametrize("before", [0, 2, 30_000])
async def test_a_line_over_a_megabyte_is_told_with_its_number(tmp_path: Path, before: int) -> None:
    file = tmp_path / "rows.csv"
    for end in (b"", b"\n", b"\ns,m,v\n"):
        file.write_bytes(HEADER.encode() + b"s,m,v\n" * before + b"x" * 1_000_001 + end)
        with pytest.raises(UsageFault, match=f"line {before + 2}: longer than a megabyte"):
            await read(file)


async def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(b"\xef\xbb\xbf" + HEADER.encode() + b"\xef\xbb\xbfs,m,v\n")
    (row,) = await read(file)
    assert isinstance(row, Row)
    assert row.recipient_id == "\ufeffs"


async def test_a_value_may_be_as_long_as_a_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    long = "x" * 999_000
    file.write_text(f"{HEADER}s,m,{long}\n")
    (row,) = await read(file)
    assert isinstance(row, Row)
    assert row.variables["v"] == long


async def test_a_quote_that_is_never_closed_is_told_with_the_line_it_stands_on(
    tmp_path: Path,
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(HEADER + "s,m,v\n" + 's,m,"v\n' + "s,m,v\n" * 200_000)
    with pytest.raises(UsageFault, match="line 3: not valid CSV: a value is longer than a meg"):
        await read(file)


@pytest.mark.parametrize(("header", "close"), [("ID,mail,v", "ID"), ("id,Mail,v", "Mail")])
async def test_a_column_in_another_case_is_suggested(
    tmp_path: Path, header: str, close: str
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(f"{header}\ns,m,v\n")
    with pytest.raises(UsageFault, match=f'did you mean "{close}"'):
        await read(file)
