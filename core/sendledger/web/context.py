"""What the routes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sendledger.journal.inbox import Inbox
from sendledger.metrics.receipts import ReceiptMeters
from sendledger.plugin.host import PluginHost
from sendledger.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Reception:
    """What receipts are taken in with.

    ``public_url`` is where providers call; no request's own word for its host is ever asked. ``hears`` says
    whether a listener hears of new work; None where nobody wants to.
    """

    database: Database
    host: PluginHost
    inbox: Inbox
    meters: ReceiptMeters
    public_url: str | None
    token_keys: Mapping[int, bytes] = field(repr=False)
    hears: Callable[[], bool | None] = lambda: None
