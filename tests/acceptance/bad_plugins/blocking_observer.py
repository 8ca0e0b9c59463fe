"""An observer that never comes back from its first batch."""

from __future__ import annotations

import threading

from sendledger.plugin import hookimpl


@hookimpl
def sendledger_observed() -> None:
    threading.Event().wait()
