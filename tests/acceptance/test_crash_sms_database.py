"""The crash matrix, receipts and look-ups: a process is killed, or cut off, at every statement of theirs.

Those of dispatch are in the matrix of :mod:`acceptance.test_crash_database`; a clean run shows that
together they are all.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import pytest

from acceptance.rig import Site
from acceptance.sms_rig import SLOTS, SmsScene, cast, sms_scene_of
from acceptance.statement_proxy import Side, StatementProxy
from acceptance.test_crash_database import STATEMENTS as OF_DISPATCH
from acceptance.test_crash_database import TROUBLE

pytestmark = pytest.mark.crash

SOON = 0
GOING = 15

STATEMENTS = {"make_turns": SOON} | dict.fromkeys(
    (
        "add_receipts",
        "take_receipts",
        "drop_receipts",
        "COMMIT drop_receipts",
        "claim_looks",
        "load_asked",
        "COMMIT load_observations",
        "take_turns",
        "find_rivals",
        "hold_adoptions",
        "find_references",
        "note_looks",
    ),
    GOING,
)
"""What a clean run says beside what dispatch does, and how many messages more the provider takes before a blow."""

BY_CHANCE = TROUBLE | {"COMMIT add_suppressions"}
"""What a clean run says only when results fall into one group so."""

Told = Callable[[str, object], None]


@dataclass(slots=True, kw_only=True)
class Strike:
    """Kills once, at *side* of the first *statement* that comes when so many are accepted."""

    scene: SmsScene
    statement: str
    side: Side
    pid: int
    accepted_min: int
    accepted: int | None = None

    def __call__(self, statement: str, side: Side) -> bool:
        """Kill, and cut."""
        if self.accepted is not None or (statement, side) != (self.statement, self.side):
            return False
        if self.scene.twilio.accepted < self.accepted_min:
            return False
        self.accepted = self.scene.twilio.accepted
        os.kill(self.pid, signal.SIGKILL)
        return True


async def test_the_matrices_hold_every_statement_of_a_clean_run(site: Site) -> None:
    seen: Counter[tuple[str, Side]] = Counter()

    def count(statement: str, side: Side) -> bool:
        seen[statement, side] += 1
        return False

    async with sms_scene_of(site, cast()) as scene, StatementProxy(site.dsn, count) as proxy:
        process = await scene.start(dsn=proxy.dsn)
        await scene.at_end()
        await scene.stop(process)
        await scene.hold_to_account()
    assert proxy.errors == []
    assert {
        statement for statement, _ in seen
    } <= OF_DISPATCH.keys() | STATEMENTS.keys() | BY_CHANCE
    assert all(seen[boundary] for boundary in product(STATEMENTS, Side)), seen


@pytest.mark.parametrize("statement", STATEMENTS)
async def test_a_process_killed_on_either_side_of_a_statement_loses_no_receipt(
    statement: str, site: Site, record_property: Told
) -> None:
    async with sms_scene_of(site, cast()) as scene, StatementProxy(site.dsn) as proxy:
        unresolved: list[int] = []
        for side in Side:
            process = await scene.start(dsn=proxy.dsn)
            proxy.watch = Strike(
                scene=scene,
                statement=statement,
                side=side,
                pid=process.pid,
                accepted_min=scene.twilio.accepted + STATEMENTS[statement],
            )
            await scene.killed(process)
            unresolved.append(scene.unresolved())
        told = f"SIGKILL before and after {statement}: {unresolved} without a result"
        record_property("crash", told)
        assert unresolved[0] <= SLOTS
        assert unresolved[1] <= 2 * SLOTS
        proxy.watch = None
        await scene.recover()


@pytest.mark.parametrize("side", Side)
async def test_a_process_cut_off_at_one_statement_after_the_other_goes_on_by_itself(
    side: Side, site: Site, record_property: Told
) -> None:
    left = {*STATEMENTS}
    async with sms_scene_of(site, cast()) as scene, StatementProxy(site.dsn) as proxy:

        def cut(statement: str, at: Side) -> bool:
            due = (
                statement in left and at is side and scene.twilio.accepted >= STATEMENTS[statement]
            )
            left.difference_update({statement} if due else ())
            return due

        proxy.watch = cut
        process = await scene.start(dsn=proxy.dsn)
        await scene.at_end()
        await scene.stop(process)
        record_property(
            "crash", f"cut {side} {len(STATEMENTS)} statements of receipts and look-ups"
        )
        assert not left
        await scene.hold_to_account()
