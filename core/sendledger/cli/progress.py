"""How far a long reading is: a bar on a terminal, a line now and then elsewhere; always on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

BAR_ROWS = 500
LINE_ROWS = 50_000

Item = TypeVar("Item")


def watched(
    items: Iterable[Item], *, total_bytes: int | None, bytes_read: Callable[[], int]
) -> Iterator[Item]:
    """Pass *items* on and show how many there were.

    *total_bytes* is the size of the file they come from, None when it has no size of its own.
    """
    console = Console(stderr=True)
    if console.is_terminal:
        return _with_bar(items, console, total_bytes, bytes_read)
    return _counted(items, LINE_ROWS, lambda count: console.print(f"sendledger: {count} rows read"))


def _with_bar(
    items: Iterable[Item],
    console: Console,
    total_bytes: int | None,
    bytes_read: Callable[[], int],
) -> Iterator[Item]:
    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rows]} rows"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total_bytes, rows=0)
        yield from _counted(
            items, BAR_ROWS, lambda count: bar.update(task, completed=bytes_read(), rows=count)
        )


def _counted(items: Iterable[Item], step: int, show: Callable[[int], None]) -> Iterator[Item]:
    for count, item in enumerate(items, 1):
        yield item
        if count % step == 0:
            show(count)
