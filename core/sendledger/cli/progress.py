"""How far a long reading is: a bar on a terminal, a line now and then elsewhere; always on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

BAR_ROWS = 500
LINE_ROWS = 50_000

Item = TypeVar("Item")


@contextmanager
def watched(
    items: Iterable[Item], *, total_bytes: int | None, bytes_read: Callable[[], int]
) -> Iterator[Iterator[Item]]:
    """Lend *items* again, and show how many were taken until the block ends.

    *total_bytes* is the size of the file they come from, None when it has no size of its own.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _counted(
            items, LINE_ROWS, lambda count: console.print(f"sendledger: {count} rows read")
        )
        return
    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rows]} rows"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total_bytes, rows=0)
        yield _counted(
            items, BAR_ROWS, lambda count: bar.update(task, completed=bytes_read(), rows=count)
        )


def _counted(items: Iterable[Item], step: int, show: Callable[[int], None]) -> Iterator[Item]:
    for count, item in enumerate(items, 1):
        yield item
        if count % step == 0:
            show(count)
