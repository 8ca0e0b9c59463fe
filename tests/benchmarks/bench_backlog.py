"""Throughput with a million rows behind: settled ones, due ones, and those of a paused batch.

Beside the same with 10,000 rows behind; once on tables that were never analysed, with autovacuum off, and
once after ANALYZE. The plans must show no sequential scan of the delivery table for any statement of a worker.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg

from benchmarks import rows
from benchmarks.lines import Line, Options, middle, progress, read_options, say
from benchmarks.rows import Load
from benchmarks.stage import Stage, staged, worker
from plans import IDS, handing_over, nodes_of, scans
from sendledger.store.statements import statement

SLOTS = 200
RUN_S = 300
ROUNDS_MAX = 3
KINDS = ("settled", "due", "held")
"""What is behind. ``held`` is a paused batch whose rows have been met; ``meeting`` measures the meeting."""

RATE = """
SELECT count(*), extract(EPOCH FROM max(received_at) - %(began_at)s::timestamptz)::float8
FROM sendledger.observation WHERE received_at >= %(began_at)s::timestamptz AND outcome = 'accepted'
"""
NEVER_ANALYSED = """
SELECT bool_and(s.last_analyze IS NULL AND s.last_autoanalyze IS NULL AND c.reltuples = -1)
FROM pg_stat_user_tables AS s
INNER JOIN pg_class AS c ON c.oid = s.relid
WHERE s.schemaname = 'sendledger' AND s.relname = ANY (%s)
"""
TABLES = ["intent", "delivery", "attempt", "observation", "recipient_secret"]
PAUSE = """
INSERT INTO sendledger.pause (scope_key, rule, began_by)
VALUES ('batch:' || %s || '/1/noop', 'operator.paused', 'bench')
"""
HELD_NOW = "SELECT count(*) FROM sendledger.delivery WHERE channel = 'noop' AND awaits = 'release'"

NOBODY = UUID(int=0)
PLANNED: dict[str, dict[str, Any]] = handing_over("noop", NOBODY) | {
    "lock_deliveries": {"intent_ids": IDS, "now": None},
    "renew_leases": {"claim_tokens": [NOBODY], "lease": timedelta(seconds=30), "now": None},
    "free_expired_claims": {"lease": timedelta(seconds=30), "rows_max": 500, "now": None},
    "find_lost_attempts": {"lease": timedelta(seconds=30), "rows_max": 500, "now": None},
    "find_ended_waits": {"channel": "noop", "rows_max": 500, "now": None},
    "read_held_until": {"channel": "noop", "since": None, "rows_max": 5_000},
    "find_orphaned": {
        "channel": "noop",
        "rows_max": 500,
        "since": None,
        "until": "2000-01-01T00:00:00Z",
    },
    "next_due": {"channels": ["noop"]},
}
"""The statements that a worker runs while it works, with parameters such as it gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One side: so many rows of a kind behind, analysed or not."""

    kind: str
    behind: int
    analysed: bool

    @property
    def database(self) -> str:
        return f"bench_{self.kind}_behind_{self.behind}"


def prepare(connection: psycopg.Connection, setting: Setting) -> None:
    """Pause what is behind where it is a paused batch's, and analyse the tables or prove that nobody did."""
    if setting.kind == "held":
        connection.execute(PAUSE, [setting.kind])
    if setting.analysed:
        connection.execute("ANALYZE")
        return
    found = connection.execute(NEVER_ANALYSED, [TABLES]).fetchone()
    assert found is not None
    if not found[0]:
        raise AssertionError("tables that were to be never analysed have been")


def scanning(connection: psycopg.Connection) -> list[str]:
    """Return the statements that would scan the delivery table from end to end."""
    return [
        name
        for name, parameters in PLANNED.items()
        if scans(nodes_of(connection, statement(name), parameters), "delivery")
    ]


async def rate(stage: Stage, setting: Setting, *, measured: int, number: int) -> float:
    """Return how many of the next *measured* rows are worked off per second."""
    if setting.kind != "due":
        with stage.connect(setting.database) as connection:
            rows.load(connection, Load(report=f"measured-{number}", rows=measured))
    stage.checkpoint()
    dsn = stage.dsn(setting.database)
    async with worker(stage, dsn, "--stop-after", str(measured), slots=SLOTS) as child:
        done = await child.hear("done", within_s=RUN_S)
    with stage.connect(setting.database) as connection:
        found = connection.execute(RATE, done).fetchone()
    assert found is not None
    count, seconds = found
    return float(count / seconds)


async def compare(stage: Stage, options: Options, kind: str, *, analysed: bool) -> None:
    """Measure with few and with many rows behind in turns, and say what came of it."""
    measured = options.size(20_000, quick=4_000)
    many = options.size(1_000_000, quick=200_000)
    settings = [Setting(kind=kind, behind=n, analysed=analysed) for n in (10_000, many)]
    found: dict[Setting, list[float]] = {setting: [] for setting in settings}
    rounds = min(options.rounds, ROUNDS_MAX)
    with ExitStack() as stack:
        for setting in settings:
            ahead = rounds * measured if kind == "due" else 0
            template = rows.template(stage, kind, setting.behind + ahead)
            stack.enter_context(stage.lent(setting.database, template=template))
            with stage.connect(setting.database) as connection:
                prepare(connection, setting)
        for number in range(rounds):
            for setting in settings:
                per_s = await rate(stage, setting, measured=measured, number=number)
                found[setting].append(per_s)
            progress(f"round {number + 1}: " + ", ".join(f"{found[s][-1]:.0f}/s" for s in settings))
        with stage.connect(settings[1].database) as connection:
            scans = scanning(connection)
    few, behind = (middle(found[setting]) for setting in settings)
    name = f"backlog.{kind}.{'analysed' if analysed else 'never_analysed'}"
    note = f"{many} rows behind beside 10000; {measured} measured, {rounds} rounds, {SLOTS} slots"
    say(
        Line(
            bench=name,
            value=behind,
            unit="deliveries/s",
            versus=few,
            must="ratio >= 0.8",
            note=note,
        )
    )
    say(
        Line(
            bench=f"{name}.scans",
            value=len(scans),
            unit="statements",
            must="value == 0",
            note="scan the delivery table: " + (", ".join(scans) or "none"),
        )
    )


async def meeting(stage: Stage, options: Options) -> None:
    """Say how fast the rows of a paused batch are held, each with its observation, when first met."""
    count = options.size(100_000, quick=10_000)
    template = rows.template(stage, "due", count)
    with stage.lent("bench_meeting", template=template) as dsn:
        with stage.connect("bench_meeting") as connection:
            connection.execute(PAUSE, ["due"])
            rows.settle(connection)
        async with worker(stage, dsn, slots=SLOTS) as child:
            await asyncio.sleep(options.size(10, quick=3))
            await child.stop()
        with stage.connect("bench_meeting") as connection:
            found = connection.execute(
                "SELECT count(*), extract(EPOCH FROM max(received_at) - min(received_at))::float8"
                " FROM sendledger.observation WHERE ruling = 'hold'"
            ).fetchone()
    assert found is not None
    say(
        Line(
            bench="backlog.meeting",
            value=found[0] / found[1],
            unit="rows/s",
            note="rows of a paused batch that are held, each with its observation; whoever is behind waits",
        )
    )


async def bench(options: Options) -> None:
    with staged(options) as stage:
        for kind in KINDS:
            for analysed in (False, True):
                await compare(stage, options, kind, analysed=analysed)
        await meeting(stage, options)


if __name__ == "__main__":
    asyncio.run(bench(read_options(__doc__)))
