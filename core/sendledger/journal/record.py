"""Recording: evidence and decisions into the ledger, in groups, always folded, whoever brings them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sendledger.journal.advance import (
    Advance,
    Entry,
    Standing,
    advance,
    follow,
    standing_of,
)
from sendledger.journal.effects import effects_of
from sendledger.journal.folding import delivery_row, ledger_order
from sendledger.journal.seals import seal_attempt, seal_observation
from sendledger.ledger.findings import Finding, storable
from sendledger.ledger.policy import Policy
from sendledger.store import ledger_rows, scopes, side_effects
from sendledger.store.database import Connection, Database
from sendledger.store.ledger_rows import (
    AcceptedRow,
    DeliveryRow,
    Locked,
    NewObservation,
    ObservationRow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Appends to the ledger.

    ``policies`` decides by channel, also for a channel that is not configured any more;
    ``configurations`` gives each channel's configuration digest. ``asked`` are the channels whose
    provider can be asked what became of an attempt.
    """

    database: Database
    policies: Mapping[str, Policy]
    revision: str
    seal_key: bytes
    configurations: Mapping[str, str]
    asked: frozenset[str] = frozenset()

    def seal_opening(
        self, intent_id: int, *, seq: int, number: int, decision_seq: int | None
    ) -> bytes:
        """Return the seal of the attempt that is to be opened at *seq*."""
        return seal_attempt(self.seal_key, intent_id, seq, number, decision_seq)

    def accepted_row(self, intent_id: int, seq: int, finding: Finding) -> AcceptedRow:
        """Return the common case as one row: *finding* accepts the newest attempt, at *seq*."""
        finding = storable(finding)
        assert finding.attempt is not None
        return AcceptedRow(
            intent_id=intent_id,
            number=finding.attempt,
            seq=seq,
            rule=finding.rule,
            stage=finding.stage,
            reply_code=finding.reply_code,
            enhanced_code=finding.enhanced_code,
            provider_reference=finding.provider_reference,
            literal=finding.literal,
            seal=seal_observation(self.seal_key, intent_id, seq, finding),
        )

    async def record_accepted(self, rows: Sequence[AcceptedRow]) -> set[int]:
        """Record the common case; returns the intent ids it took, the rest needs :meth:`record`."""
        async with self.database.connection() as connection:
            return await ledger_rows.record_accepted(
                connection,
                rows,
                policy_revision=self.revision,
                asked=self.asked,
            )

    async def record(self, entries: Sequence[Entry]) -> list[Advance]:
        """Fold *entries* into the ledger in one transaction; one advance for each intent that exists.

        Locks in key order, so that groups of several workers queue up instead of deadlocking.
        """
        async with self.database.transaction() as connection:
            return await self.record_in(connection, entries)

    async def record_in(self, connection: Connection, entries: Sequence[Entry]) -> list[Advance]:
        """As :meth:`record`, inside the caller's transaction."""
        advances = await self._advance(connection, entries)
        changed = [done for done in advances if done.added]
        await self._append(connection, changed)
        await self._write_effects(connection, changed)
        return advances

    async def standings(self, intent_ids: Sequence[int]) -> list[Standing]:
        """Return where these intents stand: each was read under its lock, and may move at once."""
        async with self.database.transaction() as connection:
            return [standing for standing, _ in await _read(connection, sorted(set(intent_ids)))]

    async def _advance(self, connection: Connection, entries: Sequence[Entry]) -> list[Advance]:
        done: list[Advance] = []
        for read, known in await _read(connection, sorted({entry.intent_id for entry in entries})):
            standing, row = read, read.locked
            for entry in (entry for entry in entries if entry.intent_id == row.intent_id):
                step = advance(standing, entry, self.policies[row.channel], known)
                known |= {(str(finding.source), finding.identity) for _, finding in step.added}
                standing = follow(step, standing)
                done.append(step)
        return done

    async def _append(self, connection: Connection, changed: Sequence[Advance]) -> None:
        if not changed:
            return
        rows = [
            self._new(done.locked, seq, finding) for done in changed for seq, finding in done.added
        ]
        await ledger_rows.add_observations(connection, rows, policy_revision=self.revision)
        final = {done.locked.intent_id: done for done in changed}
        await ledger_rows.write_deliveries(
            connection, [self._row(intent_id, done) for intent_id, done in final.items()]
        )

    def _row(self, intent_id: int, done: Advance) -> DeliveryRow:
        look_up = self.policies[done.locked.channel].look_up
        look_from = None if look_up is None else done.locked.now + look_up.first
        return delivery_row(intent_id, done.after, done.attempts, look_from)

    async def _write_effects(self, connection: Connection, changed: Sequence[Advance]) -> None:
        for channel in sorted({done.locked.channel for done in changed}):
            mine = [done for done in changed if done.locked.channel == channel]
            effects = effects_of(mine, configuration=self.configurations.get(channel, ""))
            await side_effects.add_suppressions(connection, effects.suppressions)
            for pause in effects.pauses:
                await scopes.note_pause(connection, pause)
            await side_effects.open_tasks(connection, effects.tasks)

    def _new(self, locked: Locked, seq: int, finding: Finding) -> NewObservation:
        return NewObservation(
            intent_id=locked.intent_id,
            seq=seq,
            source=finding.source,
            rule=finding.rule,
            identity=finding.identity,
            attempt=finding.attempt,
            outcome=finding.outcome,
            scope=finding.scope,
            later=finding.later,
            spent=finding.spent,
            opt_out=finding.opt_out,
            ruling=finding.ruling,
            due_at=finding.due_at,
            authorises=finding.authorises,
            cause=finding.cause,
            stage=finding.stage,
            reply_code=finding.reply_code,
            enhanced_code=finding.enhanced_code,
            provider_reference=finding.provider_reference,
            occurred_at=finding.occurred_at,
            received_at=finding.received_at,
            actor=finding.actor,
            literal=finding.literal,
            seal=seal_observation(self.seal_key, locked.intent_id, seq, finding),
        )


async def _read(
    connection: Connection, ids: Sequence[int]
) -> list[tuple[Standing, set[tuple[str, str]]]]:
    """Lock intents in key order; returns where each stands, and what is known of it already."""
    locked = await ledger_rows.lock_deliveries(connection, ids)
    attempts = await ledger_rows.load_attempts(connection, ids)
    observations = await ledger_rows.load_observations(connection, ids)
    read: list[tuple[Standing, set[tuple[str, str]]]] = []
    for row in locked:
        seen = observations.get(row.intent_id, [])
        rows = ledger_order(attempts.get(row.intent_id, []), seen)
        read.append((standing_of(row, rows), _known(seen)))
    return read


def _known(observations: Sequence[ObservationRow]) -> set[tuple[str, str]]:
    return {(row.source, row.identity) for row in observations}
