"""The demo: 240 emails and 240 SMS go out, the worker is killed half-way, and every row can explain itself.

Everything is real but the next hops: Postgres from the wheel, processes of their own, and a local SMTP
capture server and a stand-in of Twilio, whose journals, on disk before they accept anything, are compared
with the ledger at the end.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from accounting import (
    OPEN,
    Account,
    Ledger,
    account_for_email,
    account_for_sms,
    count,
    read_ledger,
)
from recipients import DEAD, GREYLISTED, LOST, ONLY_LOOKED_UP, PUPILS, write_recipients
from sendledger.bootstrap import Desk, open_desk, read_plan
from sendledger.postgres import Embedded
from sendledger.settings.describe import differences
from sendledger.settings.model import WorkerSettings
from sendledger.settings.policy import PolicySettings
from sendledger_sandbox import CaptureServer, ConnectionInfo, Phase
from sendledger_sandbox.twilio import AUTH_TOKEN, TwilioStandIn, read_journal

HERE = Path(__file__).resolve().parent
CONFIG = HERE.parent / "config"
STATE = HERE.parent / "demo-state"
SETTINGS = STATE / "sendledger.yaml"
RELAYED = STATE / "relayed.jsonl"
TEXTED = STATE / "texted.jsonl"
RECIPIENTS = STATE / "recipients.csv"
COPIED = ("batch.yaml", "notice.yaml", "report.txt", "report.html")

KILL_AT_ACCEPTED = 100
KILL_AT_IN_FLIGHT = 5
ANSWERS_AFTER_S = "0.04"
WAIT_S = 90
LOOK_S = 0.2
FORBIDDEN = 403

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Hops:
    """The next hops: where email and SMS go."""

    relay: CaptureServer
    twilio: TwilioStandIn
    trigger: Trigger


async def main() -> int:
    """Run the demo; returns the exit code."""
    began = time.monotonic()
    prepare()
    trigger = Trigger()
    relay = CaptureServer(journal=RELAYED, script=[f"stall-{ANSWERS_AFTER_S}"], observer=trigger)
    async with relay, TwilioStandIn(journal=TEXTED) as twilio:
        write_settings(relay.port, twilio.port)
        say(
            f"[bold]1.[/bold] a relay listens on {relay.host}:{relay.port}, a stand-in of Twilio on"
        )
        say(f"   {twilio.url}; settings in {SETTINGS.name}")
        try:
            code = await story(Hops(relay=relay, twilio=twilio, trigger=trigger))
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
    for name in COPIED:
        shutil.copy(HERE / name, STATE / name)
    shutil.copy(CONFIG / "demo-policy.yaml", STATE / "demo-policy.yaml")
    secret = STATE / "twilio.secret"
    secret.touch(mode=0o600)
    secret.write_text(AUTH_TOKEN, encoding="utf-8")
    write_recipients(RECIPIENTS)


def write_settings(relay: int, twilio: int) -> None:
    """Write the demo's settings with the ports of the next hops, and one for what they report."""
    text = (CONFIG / "demo.yaml").read_text(encoding="utf-8")
    for port, found in ((18025, relay), (18400, twilio), (18080, free_port())):
        text = text.replace(str(port), str(found))
    SETTINGS.write_text(text.replace("demo-state", "."), encoding="utf-8")


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


async def story(hops: Hops) -> int:
    """Plan, serve, kill, serve again, account for everyone."""
    for number, batch in ((2, "batch.yaml"), (3, "notice.yaml")):
        say(f"[bold]{number}.[/bold] planning: sendledger plan {batch} --recipients recipients.csv")
        if await command("plan", batch, "--recipients", RECIPIENTS.name):
            return 1
    say("[bold]4.[/bold] a worker starts, and takes receipts in: sendledger serve")
    if not await killed(hops):
        say("[red]the worker never came half-way[/red]")
        return 1
    say("[bold]5.[/bold] another starts: sendledger serve")
    worker = await start("serve")
    try:
        if not await settled(hops):
            say(f"[red]not everybody had an answer within {WAIT_S} s[/red]")
            return 1
    finally:
        worker.send_signal(signal.SIGTERM)
        await worker.wait()
    return await reckon()


async def killed(hops: Hops) -> bool:
    """Let a worker come half-way, then kill it; returns whether it did."""
    worker, trigger = await start("serve"), hops.trigger
    waiting = asyncio.create_task(trigger.pulled.wait())
    ended = asyncio.create_task(worker.wait())
    await asyncio.wait({waiting, ended}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if worker.returncode is None:
        worker.send_signal(signal.SIGKILL)
    answered, in_flight = trigger.answered, len(trigger.in_flight)
    await ended
    say(
        f"   [red]SIGKILL[/red] with {answered} emails answered and {in_flight} in flight,"
        f" {hops.twilio.accepted} SMS accepted: no clean-up, no last word"
    )
    return trigger.pulled.is_set()


async def settled(hops: Hops) -> bool:
    """Wait until nobody waits for an answer that can still come; returns whether that was soon enough."""
    async with open_desk(SETTINGS) as desk:
        ends = time.monotonic() + WAIT_S
        while time.monotonic() < ends:
            if await unanswered(desk) == 0:
                await hops.twilio.at_rest()
                if await unanswered(desk) == 0:
                    return True
            await asyncio.sleep(LOOK_S)
    return False


async def unanswered(desk: Desk) -> int:
    """Return how many rows and receipts are still to be worked on."""
    async with desk.database.connection() as connection:
        return await count(connection, OPEN)


async def start(*arguments: str) -> asyncio.subprocess.Process:
    """Start a sendledger command in the state folder."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sendledger", *arguments, "--config", SETTINGS.name, cwd=STATE
    )


async def command(*arguments: str) -> int:
    """Run a sendledger command to its end; returns its exit code."""
    return await (await start(*arguments)).wait()


async def reckon() -> int:
    """Compare ledger and journals, recipient by recipient, and let four rows explain themselves."""
    async with open_desk(SETTINGS) as desk, desk.database.connection() as connection:
        ledger = await read_ledger(connection)
        keys = desk.keys.token_keys
    say("[bold]6.[/bold] the ledger beside the journals of those who were handed everything")
    email = account_for_email(ledger["email"], RELAYED)
    sms = account_for_sms(ledger["sms"], TEXTED, keys)
    told = [tell(name, account) for name, account in (("emails", email), ("SMS", sms))]
    tell_callbacks()
    tell_differences()
    await explain(ledger)
    say("[bold]8.[/bold] is every status what the ledger says? sendledger rebuild --verify")
    verified = await command("rebuild", "--verify")
    return 0 if all(told) and not verified else 1


def tell(name: str, account: Account) -> bool:
    """Print one channel's account; returns whether everybody is accounted for."""
    say(table_of(account))
    for complaint in account.complaints:
        say(f"[red]{complaint}[/red]")
    say(f"[bold]{account.accounted} of {PUPILS} {name} accounted for[/bold]")
    return account.accounted == PUPILS and not account.complaints


def tell_callbacks() -> None:
    """Print what became of the callbacks of the stand-in of Twilio."""
    callbacks = read_journal(TEXTED).callbacks
    lost = sum(called.answer is None for called in callbacks)
    refused = sum(called.answer == FORBIDDEN for called in callbacks)
    say(
        f"of {len(callbacks)} callbacks {lost} found nobody (the look-up closed that gap) and {refused}"
        " forged ones were refused; the rest came twice, early or in reverse, too"
    )


async def explain(ledger: Ledger) -> None:
    """Let those rows explain themselves that had the most to tell."""
    say("[bold]7.[/bold] four rows explain themselves: sendledger explain INTENT")
    for channel, n in (
        ("email", DEAD),
        ("email", GREYLISTED[0]),
        ("email", LOST),
        ("sms", ONLY_LOOKED_UP),
    ):
        await command("explain", ledger[channel][f"S{n:04}"].intent_key)


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
