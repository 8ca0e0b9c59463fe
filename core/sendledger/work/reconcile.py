"""Reconciling: asking the provider what became of attempts, instead of sending again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from sendledger.journal.advance import Advance, Entry, Standing
from sendledger.ledger.limits import interval_us
from sendledger.ledger.policy import Policy
from sendledger.logs import get_logger
from sendledger.metrics.meters import Meters
from sendledger.plugin.receipts import Asked
from sendledger.store import limits, looking
from sendledger.store.database import DatabaseAway
from sendledger.store.looking import AskedRow, NextLook
from sendledger.work.asking import Asking
from sendledger.work.context import ChannelWork, Workshop
from sendledger.work.finding import Answered, Waiting, attempts_to_ask, next_look, only_free
from sendledger.work.proposals import wait_ended
from sendledger.work.stopping import Stop

PAGE_ROWS = 50
HOLD = timedelta(minutes=3)
"""How long nobody else looks at a page: longer than asking about all of it may take."""

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
            rows = await looking.load_asked(connection, [look.intent_id for look in looks])
        if not looks:
            return 0
        looked_at = {look.intent_id: look.looked_at for look in looks}
        standings = await self._shop.recorder.standings(list(looked_at))
        cases = [
            _case(standing, rows, looked_at[standing.locked.intent_id]) for standing in standings
        ]
        going, later = await self._budgeted(cases)
        await self._settle(going, await self._answers(going), later)
        return len(looks)

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
            if len(case.rows) <= left:
                left -= len(case.rows)
                going.append(case)
            else:
                left = 0
                at = turns.again_at + len(later) * turns.step
                later.append(NextLook(intent_id=case.intent_id, wake_at=at, looked=False))
        return going, later

    async def _answers(self, cases: Sequence[Case]) -> list[Answered]:
        written = [(row, await self._asking.write(row)) for case in cases for row in case.rows]
        asked: list[tuple[AskedRow, Asked]] = [
            (row, one) for row, one in written if one is not None
        ]
        found = await self._asking.ask([one for _, one in asked])
        proof = self._port.capabilities.absence_is_proof
        answers = [
            Answered(intent_id=row.intent_id, number=row.number, found=each, absence_is_proof=proof)
            for (row, _), each in zip(asked, found, strict=True)
        ]
        answers = await self._free(answers)
        for answer in answers:
            self._meters.receipts.looked_up(self._port.name, answer.word)
        return answers

    async def _free(self, answers: Sequence[Answered]) -> list[Answered]:
        references = frozenset[str]().union(*(answer.references for answer in answers))
        if not references:
            return list(answers)
        async with self._shop.database.connection() as connection:
            return only_free(answers, await looking.find_references(connection, references))

    async def _settle(
        self, cases: Sequence[Case], answers: Sequence[Answered], later: Sequence[NextLook]
    ) -> None:
        """Record what was found, decide what waited long enough, and say when to look again."""
        failed = {answer.intent_id for answer in answers if answer.word == "failed"}
        classify, chance = self._port.classify_later, self._shop.chance
        entries = [answer.entry(classify, chance=chance()) for answer in answers]
        entries += [
            Entry(intent_id=case.intent_id, propose=wait_ended(self._policy), chance=chance())
            for case in cases
            if case.intent_id not in failed
        ]
        advances = await self._shop.recorder.record(entries)
        self._pass_on(advances)
        self._count(advances)
        after = {done.locked.intent_id: done for done in advances}
        again = [self._again(case, after.get(case.intent_id), failed) for case in cases]
        async with self._shop.database.connection() as connection:
            await looking.note_looks(connection, [*again, *later])

    def _again(self, case: Case, done: Advance | None, failed: set[int]) -> NextLook:
        standing = case.standing
        waiting = Waiting(
            delivery=standing.delivery if done is None else done.after,
            attempts=standing.attempts,
            since=case.since,
        )
        chance, now = self._shop.chance(), standing.locked.now
        at = next_look(waiting, self._policy, now=now, chance=chance)
        return NextLook(intent_id=case.intent_id, wake_at=at, looked=case.intent_id not in failed)

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
