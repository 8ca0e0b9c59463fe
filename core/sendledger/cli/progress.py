"""How far a long reading is: a bar on a terminal, a line now and then elsewhere; always on stderr."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from sendledger.cli.console import Side

BAR_ROWS = 500
LINE_ROWS = 50_000
SLOW_ROWS = 16
SLOW_LINE_ROWS = 1_000
"""Where each row has a file to read."""

Item = TypeVar("Item")
Blocks = AsyncIterable[Sequence[Item]]


@contextmanager
def watched(
    blocks: Blocks[Item],
    *,
    total_bytes: int | None,
    bytes_read: Callable[[], int],
    slow: bool = False,
) -> Iterator[Blocks[Item]]:
    """Lend *blocks* of items again, and show how many were taken until all is done.

    *total_bytes* is the size of the file they come from, None when it has no size of its own; *slow*
    ones are told of more often.
    """
    bar_rows, line_rows = (SLOW_ROWS, SLOW_LINE_ROWS) if slow else (BAR_ROWS, LINE_ROWS)
    console = Side()
    if not console.is_terminal:
        yield _counted(
            blocks, line_rows, lambda count: console.print(f"sendledger: {count} rows read")
        )
        return
    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rows]} rows"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total_bytes, rows=0)
        yield _counted(
            blocks, bar_rows, lambda count: bar.update(task, completed=bytes_read(), rows=count)
        )


async def _counted(
    blocks: Blocks[Item], step: int, show: Callable[[int], None]
) -> AsyncIterator[Sequence[Item]]:
    count = shown = 0
    async for block in blocks:
        yield block
        count += len(block)
        if count - shown >= step:
            shown = count - count % step
            show(shown)
