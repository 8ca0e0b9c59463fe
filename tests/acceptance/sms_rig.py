"""Crashes of whoever sends SMS: a planned batch, a provider that calls back, processes to kill, the reckoning.

As :mod:`acceptance.crash_rig`. What becomes of a message is known beforehand: whatever was killed, everybody
whose message the provider took ends where it took them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acceptance.crash_rig import SESSIONS, verify
from acceptance.ledger_checker import decode_token
from acceptance.rig import ENVIRONMENT, LedgerRow, Site, until, write_private
from acceptance.sms_checker import violations
from sendledger_sandbox.twilio import (
    ACCOUNT_SID,
    AUTH_TOKEN,
    SENDER,
    Observer,
    Phase,
    TwilioStandIn,
    Where,
    read_journal,
)
from stand_in_kit import number

SLOTS = 10
WITHIN_S = 60.0
SCALE = "300"
WORKER: Mapping[str, str] = {"lease": "15m", "sweep": "1m", "poll": "30s", "stop_grace": "3h"}
"""A lease of 3 s, a sweep every 0.2 s, a poll every 0.1 s."""

LOOK_UP: Mapping[str, str] = {"first_after": "1m", "silence_after": "2m", "per_minute": "6000"}
"""What is unknown is asked about after 0.2 s, and what is silent after 0.4 s."""

PROVIDER_TAKES = "stall-request-0.01+stall-accepted-0.06"
"""What the provider takes for each request: several are always in flight."""

STEP_S = 0.01

ENDS: Mapping[int, str] = dict.fromkeys(range(50), "delivered") | {
    50: "failed",  # refused: no number
    52: "suppressed",  # refused: opted out
    62: "failed",  # told by a callback
    74: "delivered",  # answered 500 though it was taken
    76: "delivered",  # the answer is lost, and callbacks come
    80: "delivered",  # each callback comes twice, at once
    81: "delivered",  # the last one first
    83: "delivered",  # none comes: only a look-up can tell
    84: "delivered",  # all before the answer
    90: "delivered",  # no answer and no callback
    94: "failed",  # the same, and it failed
}
"""Where somebody ends whose message was taken or refused, by the last digits of the number."""

ODD = tuple(digits for digits in ENDS if digits >= 50)
AREAS = (202, 212, 312, 415)
PEOPLE = 100

UNDER_WAY = frozenset({"planned", "submitting", "deferred"})
UNRESOLVED = "SELECT intent_id, attempt_count FROM sendledger.delivery WHERE status = 'submitting'"
LOST = "SELECT count(*) FROM sendledger.observation WHERE source = 'lease'"
FREE = """
UPDATE sendledger.delivery SET wake_at = clock_timestamp()
WHERE intent_id IN (
    SELECT intent_id FROM sendledger.delivery
    WHERE awaits = 'evidence' AND wake_at > clock_timestamp() + interval '30 seconds'
    FOR UPDATE SKIP LOCKED)
"""
"""Lets the minute pass for which whoever was killed kept others from its look-ups.

It waits for nobody: who holds a row may be on this side of a proxy that runs in this very loop.
"""


def cast(count: int = PEOPLE) -> dict[str, str]:
    """Return recipients: every third of them is one with whom something is the matter."""
    odd, plain = numbers(ODD), numbers(range(50))
    return {f"S{n:03}": next(odd if n % 3 == 1 else plain) for n in range(count)}


def numbers(digits: range | tuple[int, ...]) -> Iterator[str]:
    """Return telephone numbers that end so, area by area."""
    return (number(two, area=area) for area in AREAS for two in digits)


def end_of(destination: str) -> str:
    """Return where a message to *destination* ends."""
    return ENDS[int(destination[-2:])]


@dataclass(slots=True, kw_only=True)
class SmsBlow:
    """Kills *pid* once, when the provider reaches *phase* half-way through: before it goes on there.

    In flight are requests that were read and whose answer is still to come, those without one not counted.
    """

    phase: Phase
    accepted_min: int = 25
    in_flight_min: int = 3
    pid: int = 0
    accepted: int = 0
    busy: set[str | None] = field(default_factory=set)
    in_flight: int = 0
    struck: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, phase: Phase, _count: int, where: Where) -> None:
        """Count, and strike when it is time."""
        if phase is Phase.REQUEST and int((where.to or "")[-2:]) < 50:
            self.busy.add(where.token)
        self.accepted += phase is Phase.ACCEPTED
        if phase is self.phase and self.due:
            self.in_flight = len(self.busy)
            os.kill(self.pid, signal.SIGKILL)
            self.struck.set()
        if phase is Phase.ANSWERED:
            self.busy.discard(where.token)

    @property
    def due(self) -> bool:
        """Whether somebody is to be hit, and enough accepted and in flight."""
        ready = self.accepted >= self.accepted_min and len(self.busy) >= self.in_flight_min
        return bool(self.pid) and ready and not self.struck.is_set()


@dataclass(slots=True, kw_only=True)
class SmsScene:
    """An installation with its provider, and the processes that come and go there."""

    site: Site
    twilio: TwilioStandIn
    people: Mapping[str, str]
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def start(self, *options: str, dsn: str | None = None) -> asyncio.subprocess.Process:
        """Start ``sendledger serve``; *dsn* takes it to the database by another way."""
        config = self.site.config if dsn is None else detour(self.site, dsn)
        with self._log(len(self.processes)).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "sendledger", "serve", *options, "--config", str(config)),
                cwd=self.site.folder,
                env=ENVIRONMENT,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def said(self, process: asyncio.subprocess.Process) -> str:
        """Return what a process printed, for a failed assertion."""
        return self._log(self.processes.index(process)).read_text()

    def _log(self, number: int) -> Path:
        return self.site.folder / f"serve-{number}.log"

    async def killed(self, process: asyncio.subprocess.Process) -> None:
        """Wait until *process* was killed and the database has nothing left of it."""
        code = await asyncio.wait_for(process.wait(), WITHIN_S)
        assert code == -signal.SIGKILL, self.said(process)
        await until(lambda: not self.site.select(SESSIONS), within_s=WITHIN_S)

    async def stop(self, process: asyncio.subprocess.Process) -> None:
        """Ask *process* to end, which it does in order."""
        process.terminate()
        assert await asyncio.wait_for(process.wait(), WITHIN_S) == 0, self.said(process)
        assert "Traceback" not in self.said(process)

    async def clear(self) -> None:
        """Kill every process that still runs."""
        for process in self.processes:
            if process.returncode is None:
                process.kill()
            await process.wait()

    # --- the reckoning ---------------------------------------------------------------------------

    def unresolved(self) -> int:
        """Return how many attempts have no result."""
        return len(self.site.select(UNRESOLVED))

    async def at_end(self) -> None:
        """Wait until everybody is where they end, and nothing more is told."""
        await until(lambda: not UNDER_WAY & {row.status for row in self.site.rows()}, within_s=60)
        await self.twilio.at_rest()
        await until(self._all_told, within_s=60)

    async def recover(self) -> None:
        """Let another process finish, and hold the ledger to what it promised at the kill."""
        process = await self.start()
        await self.at_end()
        await self.stop(process)
        await self.hold_to_account()

    def _all_told(self) -> bool:
        self.site.select(FREE)
        return self.site.count("inbox") == 0 and not self._astray()

    def _astray(self) -> list[LedgerRow]:
        """Return who is not where they end; who was never taken may be unknown."""
        taken = {
            decode_token(one.token or "") for one in read_journal(self.twilio.journal).accepted
        }
        return [
            row
            for row in self.site.rows()
            if row.status != end_of(self.people[row.recipient_id])
            and not (row.status == "ambiguous" and (row.intent_id, row.attempts) not in taken)
        ]

    async def hold_to_account(self) -> None:
        """Check what must hold whatever happened, once nothing is left to do."""
        assert violations(self.site.dsn, self.twilio.journal, self.people.keys()) == []
        assert self._astray() == []
        [(lost,)] = self.site.select(LOST)
        assert sum(row.status == "ambiguous" for row in self.site.rows()) <= lost
        await asyncio.to_thread(verify, self.site)


def detour(site: Site, dsn: str) -> Path:
    """Write settings that differ in the way to the database only."""
    write_private(site.folder / "detour-dsn", dsn)
    config = site.folder / "detour.yaml"
    config.write_text(site.config.read_text().replace("$file: dsn", "$file: detour-dsn"))
    return config


def prepare(site: Site, provider_url: str) -> None:
    """Let *site* send SMS through the stand-in at *provider_url*, and be called back by it."""
    write_private(site.folder / "token", AUTH_TOKEN)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    site.settings["http"] = {"listen": listen, "public_url": f"http://{listen}"}
    site.settings["channels"] = {
        "sms": {
            "plugin": "twilio",
            "slots": str(SLOTS),
            "settings": {
                "account_sid": ACCOUNT_SID,
                "auth_token": {"$file": "token"},
                "senders": [SENDER],
                "countries": ["US"],
                "base_url": provider_url,
            },
        }
    }
    site.settings["worker"] = dict(WORKER)
    site.policy = {"scale": SCALE, "look_up": dict(LOOK_UP)}
    site.batch["channel"] = "sms"
    site.batch["content"] = {"text": "Dear {{name}}, your report is ready."}


@asynccontextmanager
async def sms_scene_of(
    site: Site,
    people: Mapping[str, str],
    *,
    observer: Observer | None = None,
    script: str = PROVIDER_TAKES,
    **policy: Any,
) -> AsyncIterator[SmsScene]:
    """Plan a batch for *people* at *site*, and lend it with a provider that tells *observer* of everything.

    *policy* replaces parts of the policy.
    """
    stand_in = TwilioStandIn(
        journal=site.folder / "accepted.jsonl",
        script=[script],
        step_s=STEP_S,
        observer=observer,
        fsync=False,
    )
    async with stand_in as twilio:
        prepare(site, twilio.url)
        site.policy |= policy
        await site.planned(people)
        scene = SmsScene(site=site, twilio=twilio, people=people)
        try:
            yield scene
        finally:
            await scene.clear()
