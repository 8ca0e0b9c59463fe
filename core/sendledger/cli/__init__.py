"""The ``sendledger`` command: one module a command, and one way to say what went wrong."""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command as ``sendledger.cli.app`` does; Ctrl-C ends it without a word, at any instant."""
    try:
        # Half a second that somebody may interrupt.
        from sendledger.cli.app import main as run  # noqa: PLC0415

        run(arguments)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
