"""Outages of the relay: they cost no attempt and no person, and end by themselves."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta

from acceptance.rig import Site, drained, people, relay_of, until, working
from sendledger_sandbox import read_journal

PROBE = timedelta(seconds=0.5)


async def test_refused_connections_cost_no_attempt_and_close_the_channel_until_a_probe_succeeds(
    site: Site,
) -> None:
    async with relay_of(site) as relay:
        await relay.close()
        await site.planned(people(8))
        async with working(site):
            await until(lambda: site.count("back_off") == 1)
            assert site.count("attempt") == 0
            shown = await site.tell("status")
            assert "backing off channel:email" in shown.out
            assert "smtp.broken" in shown.out
            await relay.reopen()
            await until(lambda: all(row.status == "submitted" for row in site.rows()))
        assert site.count("back_off") == 0
        assert {row.attempts for row in site.rows()} == {1}
        assert site.tasks() == []
    assert len(read_journal(relay.journal)) == 8


async def test_a_closed_channel_is_tried_with_one_row_at_a_time(site: Site) -> None:
    async with relay_of(site) as relay:
        await relay.close()
        await site.planned(people(8))
        async with working(site) as worker:
            await until(lambda: site.count("back_off") == 1)
            before = worker.progress.claimed
            await until(lambda: site.select("SELECT probes FROM sendledger.back_off")[0][0] == 3)
            assert worker.progress.claimed <= before + 3
        assert site.count("attempt") == 0


async def test_a_lone_row_waits_between_its_tries_and_closes_nothing(site: Site) -> None:
    """One intent is not an outage; it may be the intent. It must not spin against a shut door either."""
    async with relay_of(site, refuse_new=True) as relay:
        await site.planned(people(1))
        began = time.monotonic()
        async with working(site) as worker:
            await until(lambda: relay.connections.total >= 3)
            tried = worker.progress.claimed
            assert tried <= 1 + (time.monotonic() - began) / PROBE.total_seconds() + 1
            assert site.count("back_off") == site.count("attempt") == 0
            relay.refuse_new = False
            await until(lambda: site.row("s1").status == "submitted")
        assert site.row("s1").attempts == 1


async def test_a_relay_that_says_421_at_the_door_backs_off_and_is_no_fault_of_any_row(
    site: Site,
) -> None:
    async with relay_of(site, refuse_new=True) as relay:
        await site.planned(people(5))
        async with working(site):
            await until(lambda: site.count("back_off") == 1)
            [(rule,)] = site.select("SELECT rule FROM sendledger.back_off")
            assert rule == "smtp.closing"
            assert site.count("attempt") == 0
            relay.refuse_new = False
            await until(lambda: all(row.status == "submitted" for row in site.rows()))
        assert {row.attempts for row in site.rows()} == {1}


async def test_attempts_answered_421_keep_their_numbers_are_not_spent_and_are_made_again(
    site: Site,
) -> None:
    async with relay_of(site, script=["rcpt-421"]) as relay:
        await site.planned(people(6))
        async with working(site):
            await until(lambda: site.count("back_off") == 1)
            relay.play()
            await until(lambda: all(row.status == "submitted" for row in site.rows()))
        answered = site.select(
            "SELECT intent_id, attempt, spent, scope FROM sendledger.observation"
            " WHERE rule = 'smtp.closing' ORDER BY intent_id, attempt"
        )
        assert len({intent for intent, *_ in answered}) >= 3
        assert {(spent, scope) for _, _, spent, scope in answered} == {(False, "channel")}
        tries = Counter(intent for intent, *_ in answered)
        for row in site.rows():
            assert row.attempts == tries[row.intent_id] + 1
            assert row.spent == 1
        assert_every_further_attempt_is_authorised(site)
    assert len(read_journal(relay.journal)) == 6


async def test_a_refusal_for_now_is_tried_again_by_number_until_its_budget_is_used_up(
    site: Site,
) -> None:
    async with relay_of(site) as relay:
        await site.planned(
            {
                "soon": "soon+defer-2-452-4.3.0@home.test",
                "never": "never+rcpt-452-4.3.0@home.test",
                "fine": "fine@home.test",
            }
        )
        async with working(site):
            await until(lambda: site.row("never").status == "failed")
            await until(lambda: site.row("soon").status == "submitted")
        assert site.row("soon").attempts == 3
        assert site.row("never").attempts == site.row("never").spent == 4
        assert site.row("never").rule == "policy.exhausted"
        assert [kind for kind, *_ in site.tasks()] == ["failed"]
        assert site.count("back_off") == 0
        assert_every_further_attempt_is_authorised(site)
    assert sorted(entry.rcpt[0] for entry in read_journal(relay.journal)) == [
        "fine@home.test",
        "soon+defer-2-452-4.3.0@home.test",
    ]


async def test_a_later_success_forgets_earlier_faults_so_that_rare_ones_close_nothing(
    site: Site,
) -> None:
    """Each of these rows meets one 421, one after the other, and a success lies between."""
    site.settings["channels"]["email"]["slots"] = "1"
    async with relay_of(site):
        mixed = {}
        for n in range(1, 5):
            mixed[f"bad{n}"] = f"bad{n}+rcpt-421-once@home.test"
            mixed[f"good{n}"] = f"good{n}@home.test"
        await site.planned(mixed)
        async with working(site):
            await until(lambda: all(row.status == "submitted" for row in site.rows()))
        assert {row.attempts for row in site.rows() if row.recipient_id.startswith("bad")} == {2}
        assert site.count("back_off") == 0


async def test_a_drain_ends_while_a_channel_is_closed_and_leaves_its_rows_planned(
    site: Site,
) -> None:
    site.policy["back_off"].update(probe="5m", probe_max="5m")
    async with relay_of(site) as relay:
        await relay.close()
        await site.planned(people(5))
        await drained(site)
        assert site.count("attempt") == 0
        assert {(row.status, row.awaits, row.claimed) for row in site.rows()} == {
            ("planned", "dispatch", False)
        }


def assert_every_further_attempt_is_authorised(site: Site) -> None:
    """Each attempt but the first names the stored decision that names it."""
    wrong = site.select(
        "SELECT a.intent_id, a.number FROM sendledger.attempt AS a"
        " LEFT JOIN sendledger.observation AS o"
        " ON o.intent_id = a.intent_id AND o.seq = a.decision_seq AND o.authorises = a.number"
        " WHERE a.number > 1 AND o.seq IS NULL"
    )
    assert wrong == []
