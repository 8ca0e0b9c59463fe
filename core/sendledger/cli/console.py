"""Where text for a person goes: to a terminal in its width, and through a pipe with every line whole."""

from __future__ import annotations

import os

from rich.console import Console
from rich.table import Table
from rich.text import Text

NARROWEST = 80
"""A terminal that is narrower breaks the lines itself; ours would have to cut something away."""
UNBROKEN = 10_000


def page() -> Console:
    """Return standard output. What stands in a label, such as ``:mail:``, is shown as it is."""
    console = Console(highlight=False, emoji=False)
    console.width = _width(console)
    return console


def show_table(console: Console, table: Table) -> None:
    """Print *table* without the blanks that fill its lines up: a pager, or who copies, meets none."""
    for segments in console.render_lines(table, pad=False):
        line = Text.assemble(*((part.text, part.style or "") for part in segments))
        line.rstrip()
        console.print(line, soft_wrap=True)


class Side(Console):
    """Standard error, for what is told beside the work: whoever stops listening stops nobody."""

    def __init__(self) -> None:
        super().__init__(stderr=True, highlight=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """Say nothing more, instead of ending the process."""
        self.quiet = True


def _width(console: Console) -> int:
    if console.is_terminal or "COLUMNS" in os.environ:
        return max(console.width, NARROWEST)
    return UNBROKEN
