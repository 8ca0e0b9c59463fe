"""A ledger in a real database, driven by hand: plan, claim, open, record, and look at what stands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier

from findings import proposing
from fixed_policy import POLICY, TERMS
from sendledger.journal.advance import Advance, Entry
from sendledger.journal.open import open_attempts
from sendledger.journal.record import Recorder
from sendledger.journal.verify import Discrepancy, verify
from sendledger.ledger.findings import Finding
from sendledger.ledger.identity import keyed
from sendledger.ledger.policy import Policy
from sendledger.ledger.words import Lane
from sendledger.metrics.meters import Meters
from sendledger.plugin.host import PluginHost
from sendledger.store import deliveries, ledger_rows, planning, side_effects
from sendledger.store.attempts import Opening, Terms
from sendledger.store.database import Database
from sendledger.store.deliveries import Claimed, ClaimRequest
from sendledger.store.new_intents import NewIntent
from sendledger.store.planning import BatchRow, NewBatch
from sendledger.work.recording import Recording
from sendledger.work.stopping import Stop

SEAL_KEY = bytes(range(32))
IDENTITY_KEY = bytes(reversed(range(32)))
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
FAR_OFF = datetime(2100, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=30)

FOLDED = (
    "status", "awaits", "due_at", "wake_at", "attempt_count", "spent", "contradicted", "because",
    "decision_seq", "seq",
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Rig:
    """One database with its recorder. A policy of a test's own is given to :func:`lend`."""

    database: Database
    recorder: Recorder
    terms: Terms = TERMS

    # --- bringing rows about -----------------------------------------------------------------

    async def batch(
        self, *, report: str = "spring", channel: str = "mail", lane: Lane = Lane.BULK
    ) -> BatchRow:
        """Return the header of a batch, made when it is not there."""
        async with self.database.connection() as connection:
            content_id = await planning.keep_content(
                connection,
                template_revision=bytes(32),
                parts={"subject": "Hello"},
                settings={},
            )
            wanted = NewBatch(
                report=report,
                channel=channel,
                content_revision="r1",
                purpose="news",
                lane=lane,
                content_id=content_id,
                authorization_id="council-7",
                authorized_by="clerk",
                authorized_at=LONG_AGO,
                scope_keys=scope_keys(report=report, channel=channel),
            )
            return await planning.keep_batch(connection, wanted)

    async def plan(
        self,
        count: int = 1,
        *,
        report: str = "spring",
        channel: str = "mail",
        lane: Lane = Lane.BULK,
        eligible_at: datetime | None = LONG_AGO,
        not_after: datetime | None = None,
    ) -> list[int]:
        """Plan *count* intents of one batch; returns their ids in order."""
        header = await self.batch(report=report, channel=channel, lane=lane)
        rows = [_intent(report, channel, number) for number in range(count)]
        async with self.database.connection() as connection:
            await planning.add_intents(
                connection, header, rows, eligible_at=eligible_at, not_after=not_after
            )
        keys = [row.intent_key for row in rows]
        found = await self.rows(
            "SELECT intent_id, intent_key FROM sendledger.intent WHERE intent_key = ANY (%s)", keys
        )
        ids = {row["intent_key"]: row["intent_id"] for row in found}
        return [ids[key] for key in keys]

    async def claim(
        self,
        count: int = 1,
        *,
        channel: str = "mail",
        lane: Lane = Lane.BULK,
        lease: timedelta = LEASE,
        now: datetime | None = None,
        token: UUID | None = None,
    ) -> list[tuple[Claimed, UUID]]:
        """Claim due rows; returns each with the token it is claimed under."""
        request = ClaimRequest(
            channel=channel,
            lane=lane,
            claim_token=token or uuid4(),
            claim_max=count,
            lease=lease,
            now=now,
        )
        async with self.database.connection() as connection:
            rows = await deliveries.claim_deliveries(connection, request)
        return [(row, request.claim_token) for row in rows]

    def opening(
        self, row: Claimed, token: UUID, *, go_until: datetime = FAR_OFF, seq: int | None = None
    ) -> Opening:
        """Return what opens the next attempt of a claimed row."""
        seq = row.seq if seq is None else seq
        seal = self.recorder.seal_opening(
            row.intent_id, seq=seq + 1, number=row.attempt_count + 1, decision_seq=row.decision_seq
        )
        return Opening(
            intent_id=row.intent_id,
            seq=seq,
            decision_seq=row.decision_seq,
            claim_token=token,
            go_until=go_until,
            seal=seal,
        )

    async def open(self, *openings: Opening) -> set[int]:
        """Open attempts in one group; returns the intent ids that may go to a sender."""
        return await open_attempts(self.database, openings, self.terms)

    async def open_next(self, intent_id: int) -> UUID:
        """Wake one intent, claim it and open its next attempt; returns its claim token."""
        await self.run(
            "UPDATE sendledger.delivery SET wake_at = %s WHERE intent_id = %s", LONG_AGO, intent_id
        )
        claims = await self.claim(10_000)
        [(row, token)] = [claim for claim in claims if claim[0].intent_id == intent_id]
        others = [(other.intent_id, token) for other, _ in claims if other.intent_id != intent_id]
        async with self.database.connection() as connection:
            await deliveries.release_claims(connection, others)
        assert await self.open(self.opening(row, token)) == {intent_id}
        return token

    async def opened(self, count: int = 1, **plan: Any) -> list[int]:
        """Plan *count* intents and open the first attempt of each."""
        ids = await self.plan(count, **plan)
        for intent_id in ids:
            await self.open_next(intent_id)
        return ids

    async def record(self, intent_id: int, *findings: Finding, **entry: Any) -> Advance:
        """Bring *findings* about one intent, on the slow path."""
        proposal = proposing(*findings)
        [done] = await self.recorder.record([Entry(intent_id=intent_id, propose=proposal, **entry)])
        return done

    async def bring(self, *brought: tuple[int, Finding]) -> None:
        """Bring findings about several intents as one group."""
        await self.recorder.record(
            [
                Entry(intent_id=intent_id, propose=proposing(finding))
                for intent_id, finding in brought
            ]
        )

    async def record_fast(self, intent_id: int, seq: int, finding: Finding) -> bool:
        """Bring an acceptance on the fast path, to stand at *seq*; returns whether it was taken."""
        row = self.recorder.accepted_row(intent_id, seq, finding)
        return intent_id in await self.recorder.record_accepted([row])

    async def expire_leases(self) -> None:
        """Let every lease have ended a minute ago."""
        await self.run(
            "UPDATE sendledger.delivery SET lease_until = now() - interval '1 minute'"
            " WHERE claim_token IS NOT NULL"
        )

    # --- looking at what stands --------------------------------------------------------------

    async def rows(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """Return the rows of any statement."""
        async with (
            self.database.connection() as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            await cursor.execute(statement.encode(), parameters)
            return [] if cursor.description is None else await cursor.fetchall()

    async def run(self, statement: str, *parameters: Any) -> None:
        """Run any statement."""
        await self.rows(statement, *parameters)

    async def tamper(self, *statements: str) -> None:
        """Run statements as an owner who has switched every trigger off."""
        async with self.database.transaction() as connection:
            await connection.execute("SET LOCAL session_replication_role = replica")
            for statement in statements:
                cursor = await connection.execute(statement.encode())
                assert cursor.rowcount > 0

    async def clear(self) -> None:
        """Empty every table but the installation's: cheaper by far than a database for each test."""
        tables = await self.rows(
            "SELECT tablename FROM pg_tables"
            " WHERE schemaname = 'sendledger' AND tablename <> 'installation'"
        )
        async with self.database.transaction() as connection:
            await connection.execute("SET LOCAL session_replication_role = replica")
            for row in tables:
                name = Identifier("sendledger", row["tablename"])
                await connection.execute(SQL("DELETE FROM {}").format(name))

    async def delivery(self, intent_id: int) -> dict[str, Any]:
        """Return the delivery row of one intent."""
        [row] = await self.rows("SELECT * FROM sendledger.delivery WHERE intent_id = %s", intent_id)
        return row

    async def folded(self, intent_id: int) -> dict[str, Any]:
        """Return what a rebuild must bring back of one delivery."""
        row = await self.delivery(intent_id)
        return {name: row[name] for name in FOLDED}

    async def stands(self, intent_id: int) -> tuple[str, str | None]:
        """Return status and awaits of one intent."""
        row = await self.delivery(intent_id)
        return row["status"], row["awaits"]

    async def observations(self, intent_id: int) -> list[ledger_rows.ObservationRow]:
        """Return the observations of one intent in ledger order."""
        async with self.database.connection() as connection:
            return (await ledger_rows.load_observations(connection, [intent_id]))[intent_id]

    async def attempts(self, intent_id: int) -> list[ledger_rows.AttemptRow]:
        """Return the attempts of one intent by number."""
        async with self.database.connection() as connection:
            return (await ledger_rows.load_attempts(connection, [intent_id]))[intent_id]

    async def rules(self, intent_id: int) -> list[str]:
        """Return the rules of the observations of one intent in ledger order."""
        return [row.rule for row in await self.observations(intent_id)]

    async def tasks(self) -> list[str]:
        """Return kind and cause of every open operator task."""
        async with self.database.connection() as connection:
            found = await side_effects.list_tasks(connection, rows_max=100)
        return sorted(f"{task.kind} {task.cause}" for task in found)

    async def until_somebody_waits(self) -> None:
        """Return once a session on this database waits for a lock; ten seconds at most."""
        waiting = (
            "SELECT FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        async with asyncio.timeout(10):
            while not await self.rows(waiting):
                pass

    async def verify(
        self, *, rebuild: bool = False, asked: Collection[str] = ()
    ) -> list[Discrepancy]:
        """Return everything that is not as the ledger says."""
        pages = verify(self.database, SEAL_KEY, rebuild=rebuild, asked=asked)
        return [found async for page in pages for found in page.discrepancies]


@asynccontextmanager
async def lend(
    dsn: str, *, policy: Policy = POLICY, connections_max: int = 10
) -> AsyncIterator[Rig]:
    """Lend a rig on the database at *dsn*, emptied of what an earlier test left there."""
    async with Database(dsn, connections_max=connections_max) as database:
        recorder = Recorder(
            database=database,
            policies={"mail": policy, "text": policy},
            revision=policy.revision,
            seal_key=SEAL_KEY,
            configurations={"mail": "configuration-1", "text": "configuration-1"},
        )
        rig = Rig(database=database, recorder=recorder)
        await rig.clear()
        yield rig


@asynccontextmanager
async def recording(recorder: Recorder) -> AsyncIterator[Recording]:
    """Lend what a worker records through, running meanwhile."""
    host = PluginHost()
    host.seal()
    recording = Recording(recorder, host, Stop(), Meters(["mail"]))
    task = asyncio.create_task(recording.run())
    yield recording
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def scope_keys(*, report: str = "spring", channel: str = "mail") -> list[str]:
    """Return what a batch of the rig is closed by."""
    return [
        "all",
        f"channel:{channel}",
        f"sender:{channel}/office",
        "purpose:news",
        f"batch:{report}",
    ]


def _intent(report: str, channel: str, number: int) -> NewIntent:
    person = f"person-{number}"
    return NewIntent(
        intent_key=keyed(IDENTITY_KEY, "key", report, channel, person),
        recipient_fingerprint=keyed(IDENTITY_KEY, "recipient", person),
        destination_fingerprint=fingerprint(number),
        content_digest=bytes(16),
        recipient_id=person,
        destination=f"{person}@example.test",
        variables="{}",
    )


def fingerprint(number: int) -> bytes:
    """Return the destination fingerprint of the rig's person *number*."""
    return keyed(IDENTITY_KEY, "destination", str(number))
