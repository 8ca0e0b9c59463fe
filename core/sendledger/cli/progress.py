"""How far a long reading is: a bar on a terminal, a line now and then elsewhere; always on stderr."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

BAR_ROWS = 500
LINE_ROWS = 50_000
SLOW_ROWS = 16
SLOW_LINE_ROWS = 1_000
"""Where each row has a file to read."""

Item = TypeVar("Item")


@contextmanager
def watched(
    items: AsyncIterator[Item],
    *,
    total_bytes: int | None,
    bytes_read: Callable[[], int],
    slow: bool = False,
) -> Iterator[AsyncIterator[Item]]:
    """Lend *items* again, and show how many were taken until the block ends.

    *total_bytes* is the size of the file they come from, None when it has no size of its own; *slow*
    ones are told of more often.
    """
    bar_rows, line_rows = (SLOW_ROWS, SLOW_LINE_ROWS) if slow else (BAR_ROWS, LINE_ROWS)
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _counted(
            items, line_rows, lambda count: console.print(f"sendledger: {count} rows read")
        )
        return
    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rows]} rows"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total_bytes, rows=0)
        yield _counted(
            items, bar_rows, lambda count: bar.update(task, completed=bytes_read(), rows=count)
        )


async def _counted(
    items: AsyncIterator[Item], step: int, show: Callable[[int], None]
) -> AsyncIterator[Item]:
    count = 0
    async for item in items:
        yield item
        count += 1
        if count % step == 0:
            show(count)
