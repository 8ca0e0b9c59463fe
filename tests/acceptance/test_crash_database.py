"""The crash matrix, database side: a worker is killed, or cut off, at every statement that it sends.

A proxy before Postgres sees each statement before it is forwarded, and again when the server has
answered and the worker does not know it yet.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import pytest

from acceptance.crash_rig import (
    DRAIN,
    HICCUPS,
    REFUSALS,
    SILENCES,
    SLOTS,
    Blow,
    Scene,
    recipients,
    scene_of,
)
from acceptance.rig import Site
from acceptance.statement_proxy import POOL_CHECK, SCHEMA_CHECK, Side, StatementProxy
from sendledger_sandbox import Phase

pytestmark = pytest.mark.crash

HALF_WAY = 100
EARLY = 1
AT_ONCE = 0

START = dict.fromkeys(
    (SCHEMA_CHECK, "read_server", "read_installation", "note_policy", "list_pauses"),
    AT_ONCE,
)
FIRST = dict.fromkeys((POOL_CHECK, "note_worker", "load_content"), AT_ONCE)
RENEWAL = {"renew_leases": EARLY}
WORK = (
    FIRST
    | RENEWAL
    | dict.fromkeys(
        (
            "BEGIN",
            "list_back_offs",
            "claim_deliveries",
            "open_attempts",
            "record_accepted",
            "lock_deliveries",
            "load_attempts",
            "load_observations",
            "add_observations",
            "write_deliveries",
            "COMMIT write_deliveries",
            "add_suppressions",
            "open_tasks",
            "COMMIT open_tasks",
            "find_receipts",
            "free_expired_claims",
            "find_lost_attempts",
            "find_ended_waits",
            "read_held_until",
            "find_orphaned",
            "next_due",
        ),
        HALF_WAY,
    )
)
END = {"count_batches": HALF_WAY, "forget_workers": HALF_WAY}
COMMITS = [statement for statement in WORK if statement.startswith("COMMIT")]
STATEMENTS = START | WORK | END
"""Every statement of a clean run, and how many messages the relay has taken when it is met there.

What comes once is met when it comes; everything else in the middle of the run.
"""

TROUBLE = frozenset(
    (
        "begin_back_off",
        "win_probe",
        "end_back_off",
        "close_tasks",
        "COMMIT close_tasks",
        "release_claims",
    )
)
"""Statements that a clean run needs only when the machine is slow."""

PEOPLE = recipients(REFUSALS, HICCUPS, SILENCES)
every_boundary = pytest.mark.parametrize(("statement", "side"), [*product(STATEMENTS, Side)])
Told = Callable[[str, object], None]


@dataclass(slots=True, kw_only=True)
class Strike:
    """Strikes once, at *side* of the first *statement* that comes when it is due; and cuts there."""

    scene: Scene
    statement: str
    side: Side
    pid: int | None = None
    accepted: int | None = None

    def __call__(self, statement: str, side: Side) -> bool:
        """Cut, and kill when there is a pid."""
        if self.accepted is not None or (statement, side) != (self.statement, self.side):
            return False
        if self.scene.relay.accepted < STATEMENTS[statement]:
            return False
        self.accepted = self.scene.relay.accepted
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
        return True

    def told(self, what: str, ambiguous: int) -> str:
        """Return a line of the matrix."""
        at = f"{what} {self.side} {self.statement}"
        return f"{at}: {ambiguous} without a result, {self.accepted} accepted before"


async def test_the_matrix_holds_every_statement_of_a_clean_run(site: Site) -> None:
    seen: Counter[tuple[str, Side]] = Counter()
    async with scene_of(site, PEOPLE) as scene, StatementProxy(site.dsn) as proxy:

        def count(statement: str, side: Side) -> bool:
            due = scene.relay.accepted >= STATEMENTS.get(statement, AT_ONCE)
            seen[statement, side] += due
            return False

        proxy.watch = count
        worker = await scene.start(*DRAIN, dsn=proxy.dsn)
        assert await scene.gone(worker) == 0, scene.said(worker)
        await scene.hold_to_account(set())
    assert proxy.errors == []
    assert {statement for statement, _ in seen} <= STATEMENTS.keys() | TROUBLE
    missing = [boundary for boundary in product(STATEMENTS, Side) if not seen[boundary]]
    assert missing == []


@every_boundary
async def test_a_worker_killed_at_any_statement_loses_nobody_and_repeats_nothing(
    statement: str, side: Side, site: Site, record_property: Told
) -> None:
    async with scene_of(site, PEOPLE) as scene, StatementProxy(site.dsn) as proxy:
        strike = proxy.watch = Strike(scene=scene, statement=statement, side=side)
        worker = await scene.start(*DRAIN, dsn=proxy.dsn)
        strike.pid = worker.pid
        assert await scene.gone(worker) == -signal.SIGKILL, scene.said(worker)
        unresolved = scene.unresolved()
        record_property("crash", strike.told("SIGKILL", len(unresolved)))
        assert len(unresolved) <= SLOTS
        await scene.recover(unresolved)


@pytest.mark.parametrize(
    ("statement", "side"),
    [*product(("add_observations", "COMMIT write_deliveries"), Side)],
)
async def test_a_worker_killed_while_it_recovers_another_leaves_the_rest_to_a_third(
    statement: str, side: Side, site: Site, record_property: Told
) -> None:
    blow = Blow(phase=Phase.DOT, signal=signal.SIGKILL)
    async with (
        scene_of(site, recipients(), observer=blow) as scene,
        StatementProxy(site.dsn) as proxy,
    ):
        first = await scene.start()
        blow.pids.append(first.pid)
        assert await scene.gone(first) == -signal.SIGKILL, scene.said(first)
        unresolved = scene.unresolved()
        strike = proxy.watch = Strike(scene=scene, statement=statement, side=side)
        second = await scene.start(*DRAIN, dsn=proxy.dsn)
        strike.pid = second.pid
        assert await scene.gone(second) == -signal.SIGKILL, scene.said(second)
        record_property("crash", strike.told("SIGKILL in recovery", len(scene.unresolved())))
        assert unresolved
        await scene.recover(unresolved | scene.unresolved())


@pytest.mark.parametrize(
    ("statement", "side"),
    [*product(COMMITS, Side)],
)
async def test_a_worker_that_does_not_hear_of_its_commit_finds_out_by_itself(
    statement: str, side: Side, site: Site, record_property: Told
) -> None:
    async with scene_of(site, PEOPLE) as scene, StatementProxy(site.dsn) as proxy:
        strike = proxy.watch = Strike(scene=scene, statement=statement, side=side)
        worker = await scene.start(*DRAIN, dsn=proxy.dsn)
        assert await scene.gone(worker) == 0, scene.said(worker)
        record_property("crash", strike.told("cut", len(scene.unresolved())))
        assert strike.accepted is not None
        await scene.hold_to_account(set())


@pytest.mark.parametrize("side", Side)
async def test_a_worker_cut_off_at_one_statement_after_the_other_goes_on_by_itself(
    side: Side, site: Site, record_property: Told
) -> None:
    left = WORK.keys() - set(COMMITS)
    async with scene_of(site, PEOPLE) as scene, StatementProxy(site.dsn) as proxy:

        def cut(statement: str, at: Side) -> bool:
            due = statement in left and scene.relay.accepted >= WORK[statement]
            if due and at is side:
                left.remove(statement)
                return True
            return False

        proxy.watch = cut
        worker = await scene.start(*DRAIN, dsn=proxy.dsn)
        assert await scene.gone(worker) == 0, scene.said(worker)
        record_property("crash", f"cut {side} {len(WORK) - len(COMMITS)} statements of one run")
        assert not left
        await scene.hold_to_account(set())
