"""The demo: 240 reports go out, the worker is killed half-way, and every row can explain itself.

Everything is real but the relay: Postgres from the wheel, worker processes of their own, and a local SMTP
capture server whose journal, on disk before it says 250, is compared with the ledger at the end.
"""

from __future__ import annotations

import asyncio
import csv
import shutil
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from accounting import Account, account_for, read_ledger
from sendledger.bootstrap import open_desk, read_plan
from sendledger.postgres import Embedded
from sendledger.settings.describe import differences
from sendledger.settings.model import WorkerSettings
from sendledger.settings.policy import PolicySettings
from sendledger_sandbox import CaptureServer, ConnectionInfo, Phase

HERE = Path(__file__).resolve().parent
CONFIG = HERE.parent / "config"
STATE = HERE.parent / "demo-state"
SETTINGS = STATE / "sendledger.yaml"
JOURNAL = STATE / "accepted.jsonl"
RECIPIENTS = STATE / "recipients.csv"

PUPILS = 240
DEAD = 17
LOST = 60
GREYLISTED = range(30, 38)
KILL_AT_ACCEPTED = 100
KILL_AT_IN_FLIGHT = 5
ANSWERS_AFTER_S = "0.04"

say = Console(highlight=False, soft_wrap=True).print


@dataclass(slots=True)
class Trigger:
    """Watches the relay and says when the worker is to be killed: half-way, with several in flight."""

    in_flight: set[int] = field(default_factory=set)
    answered: int = 0
    pulled: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, phase: Phase, _count: int, connection: ConnectionInfo) -> None:
        """Follow each connection from DATA to the answer."""
        if phase is Phase.DATA:
            self.in_flight.add(connection.number)
        elif phase in {Phase.REPLIED, Phase.QUIT}:
            self.in_flight.discard(connection.number)
        self.answered += phase is Phase.REPLIED
        if self.answered >= KILL_AT_ACCEPTED and len(self.in_flight) >= KILL_AT_IN_FLIGHT:
            self.pulled.set()


async def main() -> int:
    """Run the demo; returns the exit code."""
    began = time.monotonic()
    prepare()
    trigger = Trigger()
    relay = CaptureServer(journal=JOURNAL, script=[f"stall-{ANSWERS_AFTER_S}"], observer=trigger)
    async with relay:
        write_settings(relay.port)
        say(
            f"[bold]1.[/bold] a relay listens on {relay.host}:{relay.port}; settings in {SETTINGS.name}"
        )
        try:
            code = await story(trigger)
        finally:
            Embedded(STATE).stop()
    say(f"done in {time.monotonic() - began:.0f} s; the ledger stays in {STATE.name}/")
    return code


def prepare() -> None:
    """Begin with an empty state folder."""
    if STATE.exists():
        Embedded(STATE).stop()
        shutil.rmtree(STATE)
    STATE.mkdir(mode=0o700)
    for name in ("batch.yaml", "report.txt", "report.html"):
        shutil.copy(HERE / name, STATE / name)
    shutil.copy(CONFIG / "demo-policy.yaml", STATE / "demo-policy.yaml")
    write_recipients()


def write_settings(port: int) -> None:
    """Write the demo's settings with the relay's port and this state folder."""
    text = (CONFIG / "demo.yaml").read_text(encoding="utf-8")
    text = text.replace("port: 18025", f"port: {port}").replace("demo-state", ".")
    SETTINGS.write_text(text, encoding="utf-8")


def write_recipients() -> None:
    """Write 240 pupils. What the relay does with each is written into the address."""
    with RECIPIENTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["student_id", "guardian_email", "first_name", "school_year", "average"])
        for n in range(1, PUPILS + 1):
            row = [f"S{n:04}", address(n), f"Pupil{n}", "2025/26", f"{1 + n % 40 / 10:.1f}"]
            writer.writerow(row)


def address(n: int) -> str:
    """Return the guardian's address of pupil *n*, with the relay's behaviour in it."""
    outcome = ""
    if n == DEAD:
        outcome = "+rcpt-550-5.1.1"
    elif n == LOST:
        outcome = "+lose-answer"
    elif n in GREYLISTED:
        outcome = "+greylist-1"
    return f"guardian{n:03}{outcome}@example.test"


async def story(trigger: Trigger) -> int:
    """Plan, work, kill, work again, account for everyone."""
    say("[bold]2.[/bold] planning: sendledger plan batch.yaml --recipients recipients.csv")
    if await command("plan", "batch.yaml", "--recipients", RECIPIENTS.name):
        return 1
    say("[bold]3.[/bold] a worker starts: sendledger work")
    worker = await start("work")
    waiting = asyncio.create_task(trigger.pulled.wait())
    ended = asyncio.create_task(worker.wait())
    await asyncio.wait({waiting, ended}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    if not trigger.pulled.is_set():
        say("[red]the worker never came half-way[/red]")
        return 1
    worker.send_signal(signal.SIGKILL)
    answered, in_flight = trigger.answered, len(trigger.in_flight)
    await ended
    say(
        f"   [red]SIGKILL[/red] with {answered} answered and {in_flight} in flight:"
        " no clean-up, no last word"
    )
    say("[bold]4.[/bold] another worker starts: sendledger work --drain --within 1m")
    if await command("work", "--drain", "--within", "1m"):
        return 1
    return await reckon()


async def start(*arguments: str) -> asyncio.subprocess.Process:
    """Start a sendledger command in the state folder."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sendledger", *arguments, "--config", SETTINGS.name, cwd=STATE
    )


async def command(*arguments: str) -> int:
    """Run a sendledger command to its end; returns its exit code."""
    return await (await start(*arguments)).wait()


async def reckon() -> int:
    """Compare ledger and journal, recipient by recipient, and let three rows explain themselves."""
    async with open_desk(SETTINGS) as desk, desk.database.connection() as connection:
        ledger = await read_ledger(connection)
    account = account_for(ledger, JOURNAL)
    say("[bold]5.[/bold] the ledger beside the relay's own journal")
    say(table_of(account))
    for complaint in account.complaints:
        say(f"[red]{complaint}[/red]")
    say(f"[bold]{account.accounted} of {PUPILS} accounted for[/bold]")
    tell_differences()
    say("[bold]6.[/bold] three rows explain themselves: sendledger explain INTENT")
    for n in (DEAD, GREYLISTED[0], LOST):
        await command("explain", ledger[f"S{n:04}"].intent_key)
    say("[bold]7.[/bold] is every status what the ledger says? sendledger rebuild --verify")
    verified = await command("rebuild", "--verify")
    return 0 if account.accounted == PUPILS and not account.complaints and not verified else 1


def table_of(account: Account) -> Table:
    """Return every status with how often the relay's journal holds those messages."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2))
    for heading in ("deliveries", "status", "awaits", "in the journal"):
        table.add_column(heading, justify="right" if heading == "deliveries" else "left")
    for (status, awaits), held in sorted(account.rows.items()):
        table.add_row(str(sum(held.values())), status, awaits, copies(held))
    return table


def copies(held: Counter[int]) -> str:
    """Return how many messages of a row the journal holds, in words."""
    words = {0: "not there", 1: "there once"}
    return ", ".join(
        f"{count} {words.get(times, f'there {times} times')}"
        for times, count in sorted(held.items())
    )


def tell_differences() -> None:
    """Print what config/demo.yaml sets otherwise than the defaults."""
    plan = read_plan(SETTINGS)
    found = differences(plan.policy, PolicySettings())
    found += differences(plan.settings.worker, WorkerSettings())
    say(f"the demo's times are divided by {plan.policy.scale:g}; what differs from the defaults:")
    for row in found:
        say(f"   {row.path}: {row.value} instead of {row.default}")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
