"""The twilio_callback cases through a whole installation: submitted, called back, and folded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag
from uuid import UUID

import pytest
import yaml

from acceptance.rig import Site, drained, until, working
from http_peer import Asked
from reception_kit import FrontDoor, front_door
from sms_kit import INPUTS, PLEASANT, SID
from sms_site import Script, call_back, said, sms_site

HERE = Path(__file__).parent
ALTERNATIVES = yaml.safe_load((HERE / "alternatives.yaml").read_text())
CASES = {
    case["id"]: case
    for case in yaml.safe_load((INPUTS / "cases.yaml").read_text())["cases"]
    if case["kind"] == "twilio_callback"
}


@pytest.fixture
def site(tmp_path: Path, database: str, installation_id: UUID) -> Site:
    return sms_site(tmp_path, database, installation_id)


@dataclass(slots=True, kw_only=True)
class Played:
    """An installation whose only intent went through the timeline of a case."""

    site: Site
    door: FrontDoor
    script: Script
    statuses: list[int] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        """Where the provider was told to report; the fragment is for itself."""
        return urldefrag(self.script.posts[0].form["StatusCallback"]).url

    def evidence(self) -> list[tuple[str, str | None, str, int | None]]:
        """Return source, outcome, rule and code of all evidence, in ledger order."""
        return [
            (source, outcome, rule, code)
            for source, outcome, rule, code in self.site.select(
                "SELECT source, outcome, rule, reply_code FROM sendledger.observation"
                " WHERE ruling IS NULL ORDER BY seq"
            )
        ]

    def decided(self, columns: str) -> list[tuple[Any, ...]]:
        """Return columns of every decision."""
        return self.site.select(
            f"SELECT {columns} FROM sendledger.observation WHERE ruling IS NOT NULL ORDER BY seq"
        )

    async def play(self, timeline: list[dict[str, Any]]) -> None:
        """Go through the steps; every receipt is folded before the next one is posted."""
        answer = next(step for step in timeline if step["do"] == "submit_response")
        self.script.answers[:] = [said(answer)]
        for step in timeline:
            await self._take(step)
        await until(lambda: self.site.count("inbox") == 0)

    async def _take(self, step: dict[str, Any]) -> None:
        match step["do"]:
            case "submit":
                await self.site.planned({"parent": PLEASANT})
                await until(lambda: self.script.posts)
            case "submit_response":
                self.gate.set()
                await until(self._answered)
            case "callback":
                await self._call(step["body"])
            case "callback_concurrent":
                await asyncio.gather(*(self._call(step["body"]) for _ in range(step["count"])))
            case other:
                raise AssertionError(f"no case has a step {other}")

    def _answered(self) -> bool:
        return any(source == "channel" for source, *_ in self.evidence())

    async def _call(self, body: str) -> None:
        self.told.append(body)
        self.statuses.append(await call_back(self.door, self.url, body))
        await until(lambda: self.site.count("inbox") == 0)


class Gated(Script):
    """A provider that answers when it is told to."""

    def __init__(self, gate: asyncio.Event) -> None:
        super().__init__(answers=[])
        self._gate = gate

    async def respond(self, asked: Asked) -> bytes | None:
        self.posts.append(asked)
        await self._gate.wait()
        return self.answers.pop(0)


@pytest.mark.parametrize("name", sorted(CASES))
async def test_the_ledger_holds_what_the_case_expects(name: str, site: Site) -> None:
    case, other_ways = CASES[name], ALTERNATIVES.get(name, {})
    gate = asyncio.Event()
    script = Gated(gate)
    async with script.played(site), front_door(site) as door, working(site) as worker:
        played = Played(site=site, door=door, script=script, gate=gate)
        timeline = yaml.safe_load((INPUTS / case["input"]).read_text())["timeline"]
        await played.play(timeline)
        folded = {word: counted_fate(worker, word) for word in ("unmapped", "folded")}
    for key, expected in case["expected"].items():
        if key == "metric":
            assert expected == "unmapped_status_total +1 at least"
            assert folded["unmapped"] >= 1
        elif key not in other_ways:
            CHECKS[key](played, expected)
    # Whatever is due now is done: nothing more may come of it by itself.
    await drained(site)
    assert len(script.posts) == 1


def counted_fate(worker: Any, fate: str) -> float:
    """Return how many receipts the worker folded so."""
    registry = worker.progress.meters.registry
    found = registry.get_sample_value("sendledger_receipts_total", {"channel": "sms", "fate": fate})
    return float(found or 0)


# --- what is checked ---------------------------------------------------------------------------------


def stands(played: Played, expected: str) -> None:
    assert played.site.row("parent").status == expected


def never_stood(played: Played, expected: str) -> None:
    assert played.site.row("parent").status != expected
    assert expected not in [outcome for _, outcome, *_ in played.evidence()]


def is_stored(played: Played, expected: int) -> None:
    assert len(played.evidence()) == expected


def is_answered(played: Played, expected: str) -> None:
    assert expected == "2xx"
    assert {status // 100 for status in played.statuses} == {2}


def submitted_once(played: Played, expected: int) -> None:
    assert len(played.script.posts) == played.site.count("attempt") == expected


def went_through(played: Played, expected: list[str]) -> None:
    names = {"accepted": "submitted", "delivered": "delivered"}
    found = [names[str(outcome)] for _, outcome, *_ in played.evidence()]
    assert list(dict.fromkeys(found)) == expected


def came_too_late(played: Played, expected: list[str]) -> None:
    """They are stored behind what settled the row, and moved nothing."""
    identities = [
        identity
        for (identity,) in played.site.select(
            "SELECT identity FROM sendledger.observation WHERE source = 'receipt' ORDER BY seq"
        )
    ]
    assert [identity.split("/")[-2] for identity in identities][-len(expected) :] == expected
    [(because,)] = played.site.select("SELECT because FROM sendledger.delivery")
    [(settled,)] = played.site.select(
        "SELECT seq FROM sendledger.observation WHERE outcome = 'delivered'"
    )
    assert because == settled


def repeats(played: Played, expected: int) -> None:
    receipts = [source for source, *_ in played.evidence() if source == "receipt"]
    assert len(played.told) - len(receipts) == expected


def acts_once(played: Played, expected: int) -> None:
    outcomes = [outcome for _, outcome, *_ in played.evidence()]
    assert outcomes.count("delivered") == expected


def refusal_of(played: Played) -> tuple[str, str, int | None]:
    """Return outcome, scope and code of the only refusal."""
    [found] = played.site.select(
        "SELECT outcome, scope, reply_code FROM sendledger.observation"
        " WHERE outcome IN ('transient', 'permanent')"
    )
    return found[0], found[1], found[2]


def is_class(played: Played, expected: str) -> None:
    outcome, scope, _ = refusal_of(played)
    if expected == "config_error":
        assert (outcome, scope in {"sender", "channel"}) == ("permanent", True)
    else:
        assert outcome == expected


def is_scope(played: Played, expected: str) -> None:
    assert refusal_of(played)[1] == expected


def names_its_code(played: Played, expected: str) -> None:
    assert refusal_of(played)[2] == int(expected)


def holds(played: Played, expected: Mapping[str, str]) -> None:
    names_its_code(played, expected["error_code"])
    [(literal,)] = played.site.select(
        "SELECT literal FROM sendledger.evidence AS e JOIN sendledger.observation AS o"
        " USING (intent_id, seq) WHERE o.reply_code = %s",
        int(expected["error_code"]),
    )
    assert bytes(literal).decode() == played.told[-1]


def has_its_reference(played: Played, expected: str) -> None:
    found = played.site.select(
        "SELECT DISTINCT provider_reference FROM sendledger.observation WHERE ruling IS NULL"
    )
    assert found == [(expected,)]
    assert expected == SID


def drops_nothing(played: Played, expected: bool) -> None:
    assert (len(played.told) == len(played.evidence()) - 1) == expected


def suppresses_nobody(played: Played, expected: str) -> None:
    assert expected == "none"
    assert played.site.count("suppression") == 0


def follows(played: Played, expected: Mapping[str, Any]) -> None:
    row, decisions = played.site.row("parent"), played.decided("ruling, authorises")
    match expected["mode"]:
        case "auto":
            assert (row.awaits, decisions) == ("retry", [("retry", expected["new_attempt_number"])])
            [(wait,)] = played.decided("due_at - received_at")
            # The instant is computed a moment before the row is written.
            assert wait > timedelta(seconds=expected["min_delay_s"] - 1)
        case "none":
            assert (row.awaits, decisions) == (None, [])
        case "hold":
            assert (row.awaits, decisions) == ("release", [("hold", None)])
        case mode:
            raise AssertionError(f"no case has asked for {mode} before")


def pauses_the_sender(played: Played, expected: bool) -> None:
    paused = played.site.paused()
    assert ([scope.partition("/")[0] for scope in paused] == ["sender:sms"]) == expected


def asks_a_person(played: Played, expected: bool) -> None:
    assert bool(played.site.tasks()) == expected


def is_unmapped(played: Played, expected: int) -> None:
    rules = [rule for _, _, rule, _ in played.evidence()]
    assert rules.count("receipt.unmapped") >= expected


CHECKS: Mapping[str, Callable[[Played, Any], None]] = {
    "projection": stands,
    "never_projection": never_stood,
    "observations": is_stored,
    "http_status": is_answered,
    "submissions": submitted_once,
    "submissions_before_delay": submitted_once,
    "transitions_applied": went_through,
    "ignored_late": came_too_late,
    "duplicate_receipts": repeats,
    "side_effects_of_delivered": acts_once,
    "class": is_class,
    "scope": is_scope,
    "evidence": holds,
    "reason_code": names_its_code,
    "provider_sid_recorded": has_its_reference,
    "no_event_dropped": drops_nothing,
    "suppress": suppresses_nobody,
    "retry": follows,
    "sender_paused": pauses_the_sender,
    "operator_task": asks_a_person,
    "unmapped_observations_min": is_unmapped,
}
