"""The inbox: receipts are committed here before they are acknowledged, in groups."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sendledger.journal.group import GroupCommit
from sendledger.ledger.evidence import Evidence
from sendledger.ledger.findings import event_identity
from sendledger.ledger.tokens import Correlation
from sendledger.ledger.words import Source
from sendledger.plugin.receipts import Receipt
from sendledger.store import inbox
from sendledger.store.database import Database, DatabaseError
from sendledger.store.inbox import NewReceipt

GROUP_MAX = 200
AT_ONCE = 2
"""How many groups are under way: one is made while another is on its way to the disk."""

COMMIT_WITHIN_S = 2.0
"""How long a receipt waits for a database that is away; then its sender is told to come again."""

_PLAIN = (
    "stage", "handed_over", "answered", "reply_code", "enhanced_code", "provider_reference", "fault",
)  # fmt: skip

Kept = Sequence[NewReceipt]


def new_receipt(channel: str, tied: Correlation, receipt: Receipt, body: bytes) -> NewReceipt:
    """Return what is kept of *receipt*; *body*, as it came in, where it has no literal of its own."""
    return NewReceipt(
        intent_id=tied.intent_id,
        attempt=tied.attempt_number,
        channel=channel,
        source=Source.RECEIPT,
        identity=event_identity(tied.attempt_number, receipt.identity),
        occurred_at=receipt.occurred_at,
        evidence=evidence_text(receipt.evidence),
        body=receipt.evidence.literal or body,
    )


def evidence_text(evidence: Evidence) -> str:
    """Return *evidence* without its literal, as JSON."""
    plain = {name: getattr(evidence, name) for name in _PLAIN}
    wait = evidence.retry_after
    plain["retry_after_s"] = None if wait is None else wait.total_seconds()
    return json.dumps(plain | {"facts": dict(evidence.facts)})


def evidence_of(written: Mapping[str, Any], literal: bytes) -> Evidence:
    """Return the evidence that :func:`evidence_text` wrote, with its literal."""
    wait_s = written["retry_after_s"]
    return Evidence(
        **{name: written[name] for name in _PLAIN},
        literal=literal,
        retry_after=None if wait_s is None else timedelta(seconds=wait_s),
        facts=written["facts"],
    )


class Inbox:
    """Commits receipts in groups; whoever waits here knows, when it returns, that they are safe."""

    def __init__(
        self, database: Database, *, counted: Callable[[int], None] = lambda _: None
    ) -> None:
        self._database = database
        self._groups: GroupCommit[Kept, DatabaseError | None] = GroupCommit(
            self._commit, group_max=GROUP_MAX, at_once=AT_ONCE, counted=counted
        )

    async def keep(self, receipts: Kept) -> None:
        """Commit the receipts of one request, all or none.

        Raises ``DatabaseAway``, and ``DatabaseError`` when the database refuses these.
        """
        refused = await self._groups.add(receipts)
        if refused is not None:
            raise refused

    async def run(self) -> None:
        """Commit groups until cancelled."""
        await self._groups.run()

    async def _commit(self, group: Sequence[Kept]) -> list[DatabaseError | None]:
        """Commit a group; on a data error each member alone, so that a bad one spoils nobody's."""
        try:
            async with self._database.connection(COMMIT_WITHIN_S) as connection:
                await inbox.add_receipts(connection, [row for kept in group for row in kept])
        except DatabaseError as refused:
            if len(group) == 1:
                return [refused]
            return [answer for kept in group for answer in await self._commit([kept])]
        return [None] * len(group)
