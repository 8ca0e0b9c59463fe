"""The server of the ledger is killed while receipts come in: what was answered is kept, the rest is found out."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from acceptance.rig import Site, until
from acceptance.sms_rig import SmsScene, numbers, sms_scene_of
from sendledger.postgres import Embedded
from sendledger_sandbox.twilio import read_journal

pytestmark = pytest.mark.crash

FULL = os.environ.get("SENDLEDGER_CHAOS") == "full"
COUNT, AWAY_S = (1_000, 20.0) if FULL else (150, 0.0)
"""SENDLEDGER_CHAOS=full takes the server away for 20 s, else until enough was refused for it."""

REFUSED_MIN = 20
KEPT_MIN = 20
REFUSED = "route=/callbacks/{channel}/{token} status=503"


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[tuple[Site, Embedded]]:
    """Lend an installation with a server of its own, which is spoken to as if it were on another machine."""
    server = Embedded(tmp_path / "state", wait_max_s=60)
    site = Site(folder=tmp_path, dsn=server.ensure())
    site.settings["database"] = "embedded"
    server.release()
    yield site, server
    server.stop()


@pytest.mark.timeout(300 if FULL else 120)
async def test_every_receipt_that_was_answered_is_in_the_ledger_and_the_others_are_made_up_for(
    own_server: tuple[Site, Embedded],
) -> None:
    site, server = own_server
    people = {f"S{n}": to for n, to in zip(range(COUNT), cycle(numbers(range(50))), strict=False)}
    async with sms_scene_of(site, people, script="stall-0.02+callbacks-late-0.2") as scene:
        process = await scene.start()
        await until(lambda: kept(scene) >= KEPT_MIN, within_s=60)
        killed = server.status().pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        back_s = time.monotonic() + AWAY_S
        await until(lambda: time.monotonic() >= back_s and refused(scene) >= REFUSED_MIN)
        assert (await site.run("db", "start")).code == 0
        await scene.at_end()
        await scene.stop(process)
        await scene.hold_to_account()
        assert {row.status for row in site.rows()} == {"delivered"}
        assert any(called.tries > 1 for called in read_journal(scene.twilio.journal).callbacks)


def kept(scene: SmsScene) -> int:
    """Return how many callbacks were answered that they are kept."""
    return sum(called.answer == 204 for called in read_journal(scene.twilio.journal).callbacks)


def refused(scene: SmsScene) -> int:
    """Return how many requests were told to come again."""
    return scene.said(scene.processes[0]).count(REFUSED)
