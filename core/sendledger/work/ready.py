"""From a claimed row to one that may be handed over, or to the finding that says why not."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from sendledger.ledger import decisions
from sendledger.ledger.findings import Finding
from sendledger.ledger.policy import Policy
from sendledger.ledger.words import Lane
from sendledger.plugin.channel import (
    Candidate,
    Content,
    ContentFault,
    Deny,
    Go,
    Hold,
    Suppression,
    Verdict,
    Wait,
    Writer,
)
from sendledger.store import planning
from sendledger.store.database import Database
from sendledger.store.deliveries import Claimed
from sendledger.work.context import Compile

WRITERS_MAX = 64

Prepare = Callable[[Content], Writer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A claimed row that may go until ``go_until``, and the writer of its content."""

    claimed: Claimed
    claim_token: UUID
    go_until: datetime
    writer: Writer = field(repr=False)

    @property
    def number(self) -> int:
        """The number of the attempt that would be opened."""
        return self.claimed.attempt_count + 1


def barrier(row: Claimed, policy: Policy) -> Finding | None:
    """Return what keeps *row* from being asked about at all, as far as core itself knows."""
    n, now = row.attempt_count + 1, row.claimed_at
    if row.destination is None or row.variables is None:
        return decisions.fault("content.erased", n)
    if row.not_after is not None and now >= row.not_after:
        return decisions.expired(n)
    if row.paused_scope is not None:
        scope = row.paused_scope
        return decisions.hold("policy.paused", identity=f"hold/{row.seq}", cause=scope, now=now)
    if row.claims > policy.claims_max:
        rule = "policy.poison"
        return decisions.hold(rule, identity=f"hold/{row.seq}", cause=rule, now=now)
    return None


def candidate_of(row: Claimed, channel: str) -> Candidate:
    """Return what policies are told of *row*."""
    return Candidate(
        intent_key=row.intent_key.hex(),
        channel=channel,
        purpose=row.purpose,
        lane=Lane(row.lane),
        now=row.claimed_at,
        not_after=row.not_after,
        suppressions=tuple(
            Suppression(
                scope_key=standing["scope_key"],
                rule=standing["rule"],
                since=datetime.fromisoformat(standing["since"]),
            )
            for standing in row.suppressions or ()
        ),
    )


def finding_of(verdict: Verdict, row: Claimed) -> Finding | None:
    """Return the finding that records *verdict*; a go is recorded by the attempt itself."""
    n, now = row.attempt_count + 1, row.claimed_at
    match verdict:
        case Go():
            return None
        case Wait(until=until) if row.not_after is not None and until >= row.not_after:
            return decisions.expired(n)
        case Wait(until=until, rule=rule):
            return decisions.wait(rule, until)
        case Hold(rule=rule, cause=cause):
            return decisions.hold(rule, identity=f"hold/{row.seq}", cause=cause, now=now)
        case Deny(rule=rule):
            return decisions.denied(rule, n)


class Writers:
    """Compiled content revisions, the most recently used ones; compiling is done once each."""

    def __init__(self, database: Database, compile_content: Compile) -> None:
        self._database = database
        self._compile = compile_content
        self._writers: OrderedDict[tuple[str, int], Writer | ContentFault] = OrderedDict()

    async def of(self, channel: str, content_id: int, prepare: Prepare) -> Writer | ContentFault:
        """Return the writer of a stored content revision, or the fault that it can never be written."""
        name = (channel, content_id)
        if name not in self._writers:
            self._writers[name] = await self._compiled(channel, content_id, prepare)
            if len(self._writers) > WRITERS_MAX:
                self._writers.popitem(last=False)
        self._writers.move_to_end(name)
        return self._writers[name]

    async def _compiled(
        self, channel: str, content_id: int, prepare: Prepare
    ) -> Writer | ContentFault:
        async with self._database.connection() as connection:
            stored = await planning.load_content(connection, content_id)
        try:
            return prepare(self._compile(channel, stored))
        except ContentFault as fault:
            return fault


def split(
    rows: Sequence[Claimed], policy: Policy
) -> tuple[list[Claimed], list[tuple[Claimed, Finding]]]:
    """Separate rows that policies are asked about from those that core itself stops."""
    asked: list[Claimed] = []
    stopped: list[tuple[Claimed, Finding]] = []
    for row in rows:
        if (finding := barrier(row, policy)) is None:
            asked.append(row)
        else:
            stopped.append((row, finding))
    return asked, stopped
