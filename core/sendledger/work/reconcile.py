"""Reconciling: asking the provider what became of attempts, instead of sending again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from sendledger.journal.advance import Advance, Entry, Standing
from sendledger.ledger.limits import interval_us
from sendledger.ledger.policy import Policy
from sendledger.logs import get_logger
from sendledger.metrics.meters import Meters
from sendledger.store import limits, looking
from sendledger.store.database import Connection, DatabaseAway, DatabaseError
from sendledger.store.looking import AskedRow, Look, NextLook
from sendledger.work.asking import ASK_MAX, ASK_WITHIN_S, Asking
from sendledger.work.context import ChannelWork, Workshop
from sendledger.work.finding import (
    Answered,
    Waiting,
    attempts_to_ask,
    contested,
    next_look,
    only_free,
)
from sendledger.work.proposals import wait_ended
from sendledger.work.rivals import Rivals
from sendledger.work.stopping import Stop

PAGE_ROWS = ASK_MAX
HOLD = timedelta(seconds=2 * ASK_WITHIN_S)
"""How long nobody else looks at a page: asking about all of it takes half of that at most.

As long as a provider may take, so it is not the policy's to scale. Who is late only asks twice.
"""

HORIZON = timedelta(hours=1)
BURST_S = 10
"""What a minute's budget gives in so many seconds may be asked at once."""

PassOn = Callable[[Sequence[Advance]], None]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A row under question: where it stands, and which of its attempts are asked about."""

    standing: Standing
    rows: Sequence[AskedRow]

    @property
    def intent_id(self) -> int:
        """Whose row it is."""
        return self.standing.locked.intent_id

    @property
    def since(self) -> datetime:
        """When the newest attempt in question was opened."""
        return max((row.opened_at for row in self.rows), default=self.standing.locked.now)


class Reconcile:
    """The look-ups of one channel, beside dispatch and never in its way.

    Rows whose wait for evidence ends are decided here too, for the provider has the last word before.
    """

    def __init__(
        self, shop: Workshop, channel: ChannelWork, meters: Meters, pass_on: PassOn
    ) -> None:
        self._shop, self._meters, self._pass_on = shop, meters, pass_on
        self._policy: Policy = channel.policy
        self._port = shop.host.channel(channel.name)
        self._asking = Asking(shop, self._port)
        self._rivals = Rivals(shop.database, channel.name, self._asking)

    async def run(self, stop: Stop) -> None:
        """Look up until told to stop; what is being asked then is asked again by the next worker."""
        while not stop.stopping:
            if not await self._round():
                await stop.stopped(within=self._shop.rhythm.poll)

    async def _round(self) -> bool:
        """Look at one page; returns whether there may be more."""
        try:
            return await self._look() == PAGE_ROWS
        except DatabaseAway:
            return False
        except Exception:  # one bad round must not end the worker
            log.exception("look-up failed", channel=self._port.name)
            return False

    async def _look(self) -> int:
        async with self._shop.database.connection() as connection:
            looks = await looking.claim_looks(
                connection, self._port.name, hold=HOLD, rows_max=PAGE_ROWS
            )
        if not looks:
            return 0
        going, later = await self._budgeted(await self._cases(looks))
        await self._settle(going, await self._answers(going), later)
        return len(looks)

    async def _cases(self, looks: Sequence[Look]) -> list[Case]:
        looked_at = {look.intent_id: look.looked_at for look in looks}
        # Read in this order: whatever is told of an attempt in between, its reference is known then.
        standings = await self._shop.recorder.standings(list(looked_at))
        async with self._shop.database.connection() as connection:
            rows = await looking.load_asked(connection, list(looked_at))
        return [
            _case(standing, rows, looked_at[standing.locked.intent_id]) for standing in standings
        ]

    async def _budgeted(self, cases: Sequence[Case]) -> tuple[list[Case], list[NextLook]]:
        """Separate what may be asked now from what comes again when its turn is."""
        assert self._policy.look_up is not None
        per_minute, wanted = self._policy.look_up.per_minute, sum(len(case.rows) for case in cases)
        if not wanted:
            return list(cases), []
        ask = limits.Ask(
            scope_key=f"look-up:{self._port.name}",
            wanted=wanted,
            interval_us=interval_us(per_minute / 60),
            burst=ceil(per_minute * BURST_S / 60),
        )
        async with self._shop.database.connection() as connection:
            dealt = await limits.take_turns(connection, [ask], horizon=HORIZON, queueing=True)
        turns = dealt[ask.scope_key]
        left, going, later = turns.granted, list[Case](), list[NextLook]()
        for case in cases:
            if left > 0 or not case.rows:
                # Below nothing rather than never: one case may want more than a burst.
                left -= len(case.rows)
                going.append(case)
            else:
                at = turns.again_at + len(later) * turns.step
                later.append(NextLook(intent_id=case.intent_id, wake_at=at, looked_at=None))
        return going, later

    async def _answers(self, cases: Sequence[Case]) -> list[Answered]:
        seqs = {case.intent_id: case.standing.delivery.seq for case in cases}
        proof = self._port.capabilities.absence_is_proof
        found = await self._asking.ask([row for case in cases for row in case.rows])
        return [
            Answered(
                intent_id=row.intent_id,
                number=row.number,
                seq=seqs[row.intent_id],
                found=each,
                known=row.provider_reference,
                absence_is_proof=proof,
            )
            for row, each in found
        ]

    async def _settle(
        self, cases: Sequence[Case], answers: Sequence[Answered], later: Sequence[NextLook]
    ) -> None:
        """Record what was found, decide what waited long enough, and say when to look again."""
        failed = {answer.intent_id for answer in answers if answer.word == "failed"}
        ended = [case for case in cases if case.intent_id not in failed and self._ended(case)]
        advances = await self._record(await self._contested(cases, answers), ended)
        self._pass_on(advances)
        self._count(advances)
        after = {done.locked.intent_id: done for done in advances}
        again = [self._again(case, after.get(case.intent_id), failed) for case in cases]
        async with self._shop.database.connection() as connection:
            await looking.note_looks(connection, [*again, *later])

    def _ended(self, case: Case) -> bool:
        """Whether its wait was over when the provider was asked: what ended since is asked about again."""
        return bool(wait_ended(self._policy)(case.standing))

    async def _contested(
        self, cases: Sequence[Case], answers: Sequence[Answered]
    ) -> list[Answered]:
        guesses = {answer.key for answer in answers if answer.guessed}
        rows = [row for case in cases for row in case.rows if row.key in guesses]
        return contested(answers, await self._rivals.rivalled(rows))

    async def _record(self, answers: Sequence[Answered], ended: Sequence[Case]) -> list[Advance]:
        """Record a page together; on a data error each row alone, so that one stops nobody else."""
        try:
            return await self._record_together(answers, ended)
        except DatabaseError:
            found = {answer.intent_id for answer in answers} | {case.intent_id for case in ended}
        if len(found) == 1:
            log.error("look-up refused by the ledger", intent_id=found.pop())
            return []
        done: list[Advance] = []
        for one in sorted(found):
            done += await self._record(
                [answer for answer in answers if answer.intent_id == one],
                [case for case in ended if case.intent_id == one],
            )
        return done

    async def _record_together(
        self, answers: Sequence[Answered], ended: Sequence[Case]
    ) -> list[Advance]:
        propose, chance = wait_ended(self._policy), self._shop.chance
        async with self._shop.database.transaction() as connection:
            answers = await self._free(connection, answers)
            entries = [
                answer.entry(self._port.classify_later, chance=chance()) for answer in answers
            ]
            entries += [
                Entry(intent_id=case.intent_id, propose=propose, chance=chance()) for case in ended
            ]
            advances = await self._shop.recorder.record_in(connection, entries)
        for answer in answers:
            self._meters.receipts.looked_up(self._port.name, answer.word)
        return advances

    async def _free(
        self, connection: Connection, answers: Sequence[Answered]
    ) -> Sequence[Answered]:
        """Leave out what others hold. Nobody else adopts a reference until this is committed."""
        references = frozenset[str]().union(*(answer.references for answer in answers))
        if not references:
            return answers
        if any(answer.guessed for answer in answers):
            await looking.hold_adoptions(connection)
        return only_free(answers, await looking.find_references(connection, references))

    def _again(self, case: Case, done: Advance | None, failed: AbstractSet[int]) -> NextLook:
        standing = case.standing
        waiting = Waiting(
            delivery=standing.delivery if done is None else done.after,
            attempts=standing.attempts,
            since=case.since,
            failed=case.intent_id in failed,
        )
        chance, now = self._shop.chance(), standing.locked.now
        at = next_look(waiting, self._policy, now=now, chance=chance)
        looked_at = None if waiting.failed else now
        return NextLook(intent_id=case.intent_id, wake_at=at, looked_at=looked_at)

    def _count(self, advances: Sequence[Advance]) -> None:
        meter = self._meters.channel(self._port.name)
        for done in advances:
            for _, finding in done.added:
                if finding.outcome is not None:
                    meter.outcome(finding.outcome, finding.scope)


def _case(standing: Standing, rows: Sequence[AskedRow], looked_at: datetime | None) -> Case:
    numbers = attempts_to_ask(standing, looked_at)
    intent_id = standing.locked.intent_id
    asked = [row for row in rows if row.intent_id == intent_id and row.number in numbers]
    return Case(standing=standing, rows=asked)
