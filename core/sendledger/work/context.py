"""What the loops of one process share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from sendledger.attachments import Cache
from sendledger.journal.record import Recorder
from sendledger.ledger.limits import Limits
from sendledger.ledger.policy import Policy
from sendledger.plugin.channel import Content
from sendledger.plugin.host import PluginHost
from sendledger.plugin.port import ChannelPort
from sendledger.plugin.receipts import callback_url
from sendledger.store.database import Database
from sendledger.store.planning import ContentRow

NO_LIMITS = Limits()
GROUP_MAX = 100
GROUPS_AT_ONCE = 2
"""How many groups of a kind are under way: while one waits for the disk, the other is computed."""


class Compile(Protocol):
    """Turns a stored content revision into one a channel can prepare."""

    def __call__(self, channel: str, stored: ContentRow) -> Content:
        """Compile *stored*. Raises ``ValueError`` when its sources no longer compile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelWork:
    """How one channel is worked: its policy and how many slots it has."""

    name: str
    policy: Policy
    slots: int
    limits: Limits = NO_LIMITS

    @property
    def slots_useful(self) -> int:
        """How many slots can be busy at once: more than the channel's attempts in flight only wait."""
        return min(self.slots, self.limits.in_flight or self.slots)

    @property
    def group_max(self) -> int:
        """How many of its rows are committed together at most.

        Half of those in flight, so that one group does not keep all of them from being handed over.
        """
        return max(1, min(GROUP_MAX, self.slots_useful // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """The intervals of the loops, and how long a stop waits for what is in flight."""

    lease: timedelta
    sweep: timedelta
    poll: timedelta
    claim_max: int
    stop_grace: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Everything a worker process works with. ``new_token`` and ``chance`` are its only randomness.

    ``public_url`` is where receipts come in; None where nobody takes them in.
    """

    database: Database
    listen_dsn: str
    host: PluginHost
    recorder: Recorder
    channels: tuple[ChannelWork, ...]
    rhythm: Rhythm
    compile_content: Compile
    attachments: Cache
    token_keys: Mapping[int, bytes]
    token_key_id: int
    new_token: Callable[[], UUID]
    chance: Callable[[], float]
    public_url: str | None = None

    def callback_url(self, port: ChannelPort, token: str) -> str | None:
        """Return where receipts of the attempt that *token* names go; None where none is taken in."""
        if self.public_url is None or not port.reads_callbacks:
            return None
        return callback_url(self.public_url, port.name, token)
