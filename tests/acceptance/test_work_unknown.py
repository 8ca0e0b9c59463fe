"""Unknown handoffs and silence: asked, decided by written policy, settled as what they are, never renamed."""

from __future__ import annotations

import json

import pytest

from acceptance.rig import Site, drained, relay_of, until, working
from sendledger.work import sweep
from sendledger_sandbox import read_journal


async def test_an_unknown_handoff_is_put_to_a_person_when_no_evidence_comes(site: Site) -> None:
    site.policy["unknown"]["wait"] = "1m"  # 1 s
    async with relay_of(site) as relay:
        await site.planned({"lost": "lost+lose-answer@home.test"})
        await drained(site)
        assert (site.row("lost").status, site.row("lost").awaits) == ("ambiguous", "evidence")
        assert site.tasks() == []
        async with working(site):
            await until(lambda: site.row("lost").awaits == "decision")
        lost = site.row("lost")
        assert (lost.status, lost.rule, lost.attempts) == (
            "ambiguous",
            "policy.unknown-handoff",
            1,
        )
        assert [(kind, cause) for kind, cause, _ in site.tasks()] == [
            ("unknown", "policy.unknown-handoff")
        ]
        shown = await site.tell("status")
        assert "ambiguous" in shown.out
        assert "decision" in shown.out
        assert "unknown: policy.unknown-handoff" in shown.out
    assert len(read_journal(relay.journal)) == 1


async def test_where_the_policy_says_so_an_unknown_handoff_is_tried_again_by_a_decision_that_says_it(
    site: Site,
) -> None:
    site.policy["unknown"] = {"wait": "1m", "then": "retry"}
    async with relay_of(site) as relay:
        await site.planned({"lost": "lost+lose-answer-once@home.test"})
        async with working(site):
            await until(lambda: site.row("lost").status == "submitted")
        assert site.row("lost").attempts == 2
        [(number, rule, source, authorises)] = site.select(
            "SELECT a.number, o.rule, o.source, o.authorises FROM sendledger.attempt AS a"
            " JOIN sendledger.observation AS o"
            " ON o.intent_id = a.intent_id AND o.seq = a.decision_seq"
        )
        assert (number, rule, source, authorises) == (2, "policy.retry-unknown", "policy", 2)
        assert site.tasks() == []
        told = await site.tell("explain", site.row("lost").key)
        assert "policy.retry-unknown" in " ".join(told.out.split())
    sent = read_journal(relay.journal)
    assert len(sent) == 2
    assert len({entry.message_id for entry in sent}) == 1, "receivers drop the repeat by it"
    assert len({entry.token for entry in sent}) == 2, "each attempt has a token of its own"


async def test_silence_after_acceptance_is_settled_as_silence_and_never_renamed_delivered(
    site: Site,
) -> None:
    site.policy["evidence"] = {"window": {"email": "1m"}}
    async with relay_of(site):
        await site.planned({"heard": "heard@home.test"})
        async with working(site):
            await until(lambda: site.row("heard").rule == "evidence.window-closed")
        heard = site.row("heard")
        assert (heard.status, heard.awaits, heard.due_at) == ("submitted", None, None)
        told = json.loads((await site.tell("explain", heard.key, "--json")).out)
        assert (told["status"], told["awaits"]) == ("submitted", None)
        assert [step["outcome"] for step in told["steps"] if step["kind"] == "evidence"] == [
            "accepted"
        ]
        shown = await site.tell("status")
        assert "nothing (settled)" in shown.out
        assert "delivered" not in shown.out
        assert site.tasks() == []


async def test_a_wait_that_ended_is_not_kept_behind_those_that_nobody_looks_up_any_more(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A channel that could ask its provider, and cannot now, has rows that wake long before they end."""
    monkeypatch.setattr(sweep, "PAGE_ROWS", 1)
    site.policy["unknown"]["wait"] = "1m"  # 1 s
    async with relay_of(site):
        await site.planned({"early": "early@home.test", "lost": "lost+lose-answer@home.test"})
        await drained(site)
        site.select(
            "UPDATE sendledger.delivery SET wake_at = '-infinity' WHERE status = 'submitted'"
        )
        async with working(site):
            await until(lambda: site.row("lost").awaits == "decision")
    [(ends,)] = site.select(
        "SELECT d.wake_at = a.window_ends_at FROM sendledger.delivery AS d"
        " JOIN sendledger.attempt AS a USING (intent_id) WHERE d.status = 'submitted'"
    )
    assert ends


async def test_a_message_lost_before_the_handoff_is_no_unknown_one(site: Site) -> None:
    """The connection breaks before 354: nothing can have been taken, so it is tried again at once."""
    async with relay_of(site) as relay:
        await site.planned({"cut": "cut+drop-data-once@home.test"})
        async with working(site):
            await until(lambda: site.row("cut").status == "submitted")
        assert site.row("cut").attempts == 2
        assert site.row("cut").spent == 1
        outcomes = site.select("SELECT DISTINCT outcome FROM sendledger.observation")
        assert ("ambiguous",) not in outcomes
    assert len(read_journal(relay.journal)) == 1
