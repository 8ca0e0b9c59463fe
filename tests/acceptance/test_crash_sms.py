"""The crash matrix, SMS side: a process that submits and takes receipts in is killed at what the provider sees."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from acceptance.ledger_checker import decode_token
from acceptance.rig import ENVIRONMENT, Site, until, write_private
from sendledger_sandbox.twilio import (
    ACCOUNT_SID,
    AUTH_TOKEN,
    SENDER,
    Phase,
    TwilioStandIn,
    Where,
    read_journal,
)
from stand_in_kit import number

pytestmark = pytest.mark.crash

Told = Callable[[str, object], None]

SLOTS = 10
PEOPLE: Mapping[str, str] = {
    f"S{n:03}": number(n % 50, area=area) for n, area in enumerate([202] * 50 + [212] * 50)
}
ACCEPTED_MIN = 30
SCALE = "300"
WORKER = {"lease": "15m", "sweep": "1m", "poll": "30s", "stop_grace": "3h"}
PHASES = [phase for phase in Phase if phase not in {Phase.CONNECT, Phase.LOOK_UP}]
"""Connections are kept, so that no new one is certain to come; a look-up comes long after a handoff."""
UNDER_WAY = frozenset({"planned", "submitting", "deferred"})
ATTEMPTS = "SELECT intent_id, number FROM sendledger.attempt ORDER BY intent_id, number"


@dataclass(slots=True, kw_only=True)
class Blow:
    """Kills *pid* once, when the stand-in reaches *phase* with enough accepted and somebody in flight."""

    phase: Phase
    pid: int = 0
    accepted: int = 0
    busy: set[str | None] = field(default_factory=set)
    in_flight: int = 0

    def __call__(self, phase: Phase, _count: int, where: Where) -> None:
        """Count, and strike when it is time."""
        if phase is Phase.REQUEST:
            self.busy.add(where.token)
        self.accepted += phase is Phase.ACCEPTED
        if phase is self.phase and self.accepted >= ACCEPTED_MIN and self.pid:
            self.in_flight = len(self.busy)
            os.kill(self.pid, signal.SIGKILL)
            self.pid = 0
        if phase is Phase.ANSWERED:
            self.busy.discard(where.token)


def prepare(site: Site, twilio: TwilioStandIn) -> None:
    """Let *site* send SMS through the stand-in, and be called back by it."""
    write_private(site.folder / "token", AUTH_TOKEN)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    site.settings["http"] = {"listen": listen, "public_url": f"http://{listen}"}
    site.settings["channels"]["sms"] = {
        "plugin": "twilio",
        "slots": str(SLOTS),
        "settings": {
            "account_sid": ACCOUNT_SID,
            "auth_token": {"$file": "token"},
            "senders": [SENDER],
            "countries": ["US"],
            "base_url": twilio.url,
        },
    }
    site.settings["worker"] = WORKER
    site.policy = {"scale": SCALE}
    site.batch["channel"] = "sms"
    site.batch["content"] = {"text": "Dear {{name}}, your report is ready."}


@asynccontextmanager
async def serving(site: Site) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run ``sendledger serve`` until the block ends; what it says is in a file."""
    with (site.folder / "serve.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sendledger", "serve", "--config", str(site.config)),
            cwd=site.folder,
            env=ENVIRONMENT,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("phase", PHASES)
async def test_a_process_killed_while_it_sends_sms_loses_nobody_and_repeats_nothing(
    phase: Phase, site: Site, record_property: Told
) -> None:
    blow = Blow(phase=phase)
    stand_in = TwilioStandIn(
        journal=site.folder / "accepted.jsonl",
        script=["stall-request-0.01+stall-accepted-0.03"],
        step_s=0.01,
        observer=blow,
    )
    async with stand_in as twilio:
        prepare(site, twilio)
        await site.planned(PEOPLE)
        async with serving(site) as process:
            blow.pid = process.pid
            assert await asyncio.wait_for(process.wait(), 60) == -signal.SIGKILL
        async with serving(site) as process:
            await until(lambda: not UNDER_WAY & {row.status for row in site.rows()}, within_s=60)
            await twilio.at_rest()
            await until(lambda: site.count("inbox") == 0)
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 60) == 0
        said = hold_to_account(site, twilio)
    record_property("crash", f"SIGKILL at sms {phase}: {said}, {blow.in_flight} in flight")


def hold_to_account(site: Site, twilio: TwilioStandIn) -> str:
    """Compare the ledger with the journal; return a count of what is left in doubt."""
    journal = read_journal(twilio.journal)
    assert Counter(entry.to for entry in journal.accepted).most_common(1)[0][1] == 1
    rows = {row.recipient_id: row for row in site.rows()}
    assert rows.keys() == PEOPLE.keys()
    committed = set(site.select(ATTEMPTS))
    taken = {decode_token(entry.token or "") for entry in journal.accepted}
    assert taken <= committed
    assert {row.status for row in rows.values()} <= {"submitted", "delivered", "ambiguous"}
    unknown = {row.intent_id for row in rows.values() if row.status == "ambiguous"}
    assert len(unknown) <= SLOTS
    missing = committed - taken
    assert {intent_id for intent_id, _ in missing} <= unknown
    assert sum(row.status == "delivered" for row in rows.values()) > len(PEOPLE) / 2
    return f"{len(unknown)} unknown, {len(missing)} of them never accepted"
