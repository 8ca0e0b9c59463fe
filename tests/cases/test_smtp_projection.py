"""The smtp_transcript cases through a whole worker: what the ledger holds afterwards, and what follows from it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

from acceptance.rig import Site, drained, found_site, until, working
from smtp_kit import AT_DOT, BYE, INPUTS, PLEASANT, SCALED
from smtp_peer import Script, ScriptedPeer

HERE = Path(__file__).parent
ALTERNATIVES = yaml.safe_load((HERE / "alternatives.yaml").read_text())
CASES = {
    case["id"]: case
    for case in yaml.safe_load((INPUTS / "cases.yaml").read_text())["cases"]
    if case["kind"] == "smtp_transcript"
}

# One test each, below: they need more than one recipient, or more than one moment.
SEVERAL = {"smtp-07", "smtp-10"}


@pytest.fixture
def site(tmp_path: Path, database: str, installation_id: UUID) -> Site:
    """Return an installation with the shipped policy as it is: these cases ask for real delays."""
    site = found_site(tmp_path, database, installation_id)
    site.policy = {"scale": "1"}
    site.settings["channels"]["email"]["slots"] = "1"
    site.settings["worker"] = {"poll": "1s", "sweep": "1s"}
    site.relay["timeouts"] = SCALED
    return site


@asynccontextmanager
async def served(site: Site, scripts: Sequence[Script] | Path) -> AsyncIterator[ScriptedPeer]:
    """Play *scripts* to whatever the worker of *site* does; it must keep to them."""
    peer = (
        ScriptedPeer.from_file(scripts)
        if isinstance(scripts, Path)
        else ScriptedPeer(scripts=scripts)
    )
    async with peer:
        site.relay["port"] = str(peer.port)
        yield peer
    assert peer.failures == []


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """An installation whose only intent has met the peer of a case."""

    site: Site
    peer: ScriptedPeer

    def observed(self, columns: str) -> tuple[Any, ...]:
        """Return columns of the only evidence."""
        [row] = self.site.select(
            f"SELECT {columns} FROM sendledger.observation WHERE outcome IS NOT NULL"
        )
        return row

    def decided(self, columns: str) -> list[tuple[Any, ...]]:
        """Return columns of every decision."""
        return self.site.select(
            f"SELECT {columns} FROM sendledger.observation WHERE ruling IS NOT NULL ORDER BY seq"
        )


@pytest.mark.parametrize("name", sorted(CASES.keys() - SEVERAL))
async def test_the_ledger_holds_what_the_case_expects(name: str, site: Site) -> None:
    case, other_ways = CASES[name], ALTERNATIVES.get(name, {})
    async with served(site, INPUTS / case["input"]) as peer:
        await site.planned({"parent": PLEASANT})
        await drained(site)
        played = Played(site=site, peer=peer)
        for key, expected in case["expected"].items():
            if key not in other_ways and key not in LATER:
                CHECKS[key](played, expected)
        for key in case["expected"].keys() & other_ways.keys():
            OTHER_WAYS[name, key](played)
        # Whatever is due now is done: nothing more may come of it by itself.
        before = (site.count("attempt"), len(peer.messages), peer.connections)
        await drained(site)
        assert (site.count("attempt"), len(peer.messages), peer.connections) == before
        if "attempt_2_projection" in case["expected"]:
            await when_its_time_has_come(site)
            assert site.row("parent").status == case["expected"]["attempt_2_projection"]
            assert site.row("parent").attempts == 2


LATER = {"attempt_2_projection"}


async def when_its_time_has_come(site: Site) -> None:
    """Let the queue believe that the wait is over; the decision keeps its instant."""
    site.select("UPDATE sendledger.delivery SET wake_at = now()")
    await drained(site)


def is_class(played: Played, expected: str) -> None:
    if expected == "config_error":
        assert played.site.paused() == ["channel:email"]
        assert played.site.count("attempt") == 0
    else:
        assert played.observed("outcome") == (expected,)
        assert played.site.paused() == []


def is_scope(played: Played, expected: str) -> None:
    if played.site.paused():
        assert played.site.paused() == [f"{expected}:email"]
    else:
        assert played.observed("scope") == (expected,)


def stands(played: Played, expected: str) -> None:
    assert played.site.row("parent").status == expected


def is_ambiguous(played: Played, expected: bool) -> None:
    assert (played.site.row("parent").status == "ambiguous") == expected


def follows(played: Played, expected: Mapping[str, Any]) -> None:
    row, decisions = played.site.row("parent"), played.decided("ruling, authorises")
    match expected["mode"]:
        case "auto":
            number = expected.get("new_attempt_number", 2)
            assert (row.awaits, decisions) == ("retry", [("retry", number)])
        case "none":
            assert (row.awaits, decisions) == (None, [])
        case "reconcile_first":
            assert (row.awaits, decisions) == ("evidence", [])
        case mode:
            raise AssertionError(f"no case has asked for {mode} before")
    if "min_delay_s" in expected:
        [(wait,)] = played.decided("due_at - received_at")
        # The instant is computed a moment before the row is written.
        assert wait > timedelta(seconds=expected["min_delay_s"] - 1)


def suppresses(played: Played, expected: str) -> None:
    found = played.site.select(
        "SELECT s.scope_key, s.destination_fingerprint = i.destination_fingerprint"
        " FROM sendledger.suppression AS s JOIN sendledger.intent AS i USING (intent_id)"
    )
    assert found == {"none": [], "destination": [("channel:email", True)]}[expected]


def holds(played: Played, expected: Mapping[str, Any]) -> None:
    columns = {
        "stage": "stage",
        "reply_code": "reply_code",
        "enhanced": "enhanced_code",
        "queue_id": "provider_reference",
    }
    wanted = ", ".join(columns[key] for key in expected)
    if played.site.paused():
        [found] = played.site.select(f"SELECT {wanted} FROM sendledger.pause")
    else:
        found = played.observed(wanted)
    assert found == tuple(expected.values())


def never_resubmits(played: Played, expected: int) -> None:
    assert len(played.peer.messages) - 1 == played.site.count("attempt") - 1 == expected


def names_its_rule(played: Played, expected: bool) -> None:
    assert (played.observed("rule") == ("smtp.rate-limited",)) == expected


def stores_evidence(played: Played, expected: bool) -> None:
    assert (played.site.count("evidence") == 1) == expected


def keeps_every_byte(played: Played, expected: bool) -> None:
    sent = bytes.fromhex("35353020352e312e3120d3c3bba7b2bbb4e6d4da0d0a")
    [(literal,)] = played.site.select("SELECT literal FROM sendledger.evidence")
    assert (bytes(literal) == sent) == expected


def escapes_nothing(played: Played, expected: bool) -> None:
    # The worker came to the end of its drain, and nothing is claimed or open.
    assert not expected
    row = played.site.row("parent")
    assert not row.claimed
    assert row.status != "submitting"


def fails_nobody(played: Played, expected: int) -> None:
    assert sum(row.status == "failed" for row in played.site.rows()) == expected


def pauses_the_channel(played: Played, expected: bool) -> None:
    assert (played.site.paused() == ["channel:email"]) == expected
    assert [kind for kind, *_ in played.site.tasks()] == ["paused"]


def asks_a_person(played: Played, expected: bool) -> None:
    assert bool(played.site.tasks()) == expected


CHECKS: Mapping[str, Callable[[Played, Any], None]] = {
    "class": is_class,
    "scope": is_scope,
    "projection": stands,
    "ambiguous": is_ambiguous,
    "retry": follows,
    "suppress": suppresses,
    "evidence": holds,
    "automatic_resubmissions": never_resubmits,
    "rule_id_recorded": names_its_rule,
    "evidence_row_stored": stores_evidence,
    "evidence_bytes_recoverable": keeps_every_byte,
    "exception_escapes": escapes_nothing,
    "failed_recipients": fails_nobody,
    "channel_paused": pauses_the_channel,
    "operator_task": asks_a_person,
}


def waits_without_an_attempt(played: Played) -> None:
    """No session was to be had, so no attempt was opened: the row is planned as before."""
    row = played.site.row("parent")
    assert (row.status, row.awaits, row.attempts) == ("planned", "dispatch", 0)


OTHER_WAYS: Mapping[tuple[str, str], Callable[[Played], None]] = {
    ("smtp-09", "projection"): waits_without_an_attempt,
}


async def test_smtp_07_each_recipient_has_a_transaction_and_a_result_of_its_own(
    site: Site,
) -> None:
    """As ``why`` allows: one recipient per transaction."""
    expected = CASES["smtp-07"]["expected"]["recipients"]
    refused = {"send": "550 5.1.1 <gone@example.com>: Recipient address rejected\r\n"}
    script = [
        *AT_DOT,
        {"send": "250 2.0.0 Ok: queued as 4XQ2yz0abd\r\n"},
        {"expect": "MAIL FROM"},
        {"send": "250 2.1.0 Ok\r\n"},
        {"expect": "RCPT TO:<gone@example.com>"},
        refused,
        *BYE,
    ]
    async with served(site, [script]) as peer:
        recipients = {name.partition("@")[0]: name for name in expected}
        await site.planned(recipients)
        await drained(site)
        for name, wanted in expected.items():
            row = site.row(name.partition("@")[0])
            [(outcome, suppressed)] = site.select(
                "SELECT outcome, (SELECT count(*) FROM sendledger.suppression AS s"
                " WHERE s.intent_id = o.intent_id) FROM sendledger.observation AS o"
                " WHERE intent_id = %s",
                row.intent_id,
            )
            assert (row.status, outcome) == (wanted["projection"], wanted["class"])
            assert suppressed == (wanted.get("suppress") == "destination")
        await when_its_time_has_come(site)
        later = len(peer.messages) - 1
        assert later == CASES["smtp-07"]["expected"]["later_submissions_to_ok@example.com"]
    assert "two transactions" in ALTERNATIVES["smtp-07"]["recipients"]["because"]


async def test_smtp_10_a_goodbye_on_an_idle_session_costs_a_connection_and_no_attempt(
    site: Site,
) -> None:
    expected = CASES["smtp-10"]["expected"]
    async with served(site, INPUTS / CASES["smtp-10"]["input"]) as peer:
        await site.planned({"first": PLEASANT})
        async with working(site):
            await until(lambda: site.row("first").status == expected["projection"])
            await peer.idled.wait()
            await site.planned({"second": PLEASANT})
            await until(lambda: site.row("second").status == expected["projection"])
        second = site.row("second")
        assert second.attempts == expected["attempts_recorded"]
        assert peer.connections == expected["connections_opened"]
        outcomes = [row[0] for row in site.select("SELECT outcome FROM sendledger.observation")]
        assert outcomes == [expected["class"]] * 2
        assert outcomes.count("transient") == expected["deferrals"]
