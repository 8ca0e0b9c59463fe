"""Rows that may not go, cannot be written or are poison: each stands for itself and stops nobody."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from acceptance.rig import Site, drained, people, relay_of, until, working
from sendledger_sandbox import read_journal

DEAD = "gone+rcpt-550-5.1.1@home.test"


async def test_an_unknown_mailbox_is_refused_once_and_never_tried_again_by_a_later_batch(
    site: Site,
) -> None:
    async with relay_of(site) as relay:
        await site.planned({"gone": DEAD, "fine": "fine@home.test"})
        await drained(site)
        assert (site.row("gone").status, site.row("gone").rule) == (
            "failed",
            "smtp.address-unknown",
        )
        [(rule, intent, step)] = site.select(
            "SELECT s.rule, s.intent_id, o.rule FROM sendledger.suppression AS s"
            " JOIN sendledger.observation AS o USING (intent_id, seq)"
        )
        assert (rule, intent, step) == (
            "smtp.address-unknown",
            site.row("gone").intent_id,
            "smtp.address-unknown",
        )
        site.batch["content_revision"] = "r2"
        await site.planned({"again": DEAD, "sound": "sound@home.test"})
        await drained(site)
        again = site.row("again")
        assert (again.status, again.attempts, again.rule) == (
            "suppressed",
            0,
            "smtp.address-unknown",
        )
        assert site.row("sound").status == "submitted"
        assert site.count("suppression") == 1
    assert len(read_journal(relay.journal)) == 2


async def test_refusals_that_prove_nothing_about_an_address_suppress_nobody(site: Site) -> None:
    refusals = {
        "policy": "policy+rcpt-550-5.7.1@home.test",
        "bare": "bare+rcpt-550@home.test",
        "full": "full+rcpt-552-5.2.2@home.test",
        "unroutable": "unroutable+rcpt-550-5.4.1@home.test",
        "message": "message+dot-554-5.6.0@home.test",
        "stays": "stays+dot-554@home.test",
    }
    async with relay_of(site):
        await site.planned(refusals)
        await drained(site)
        assert site.count("suppression") == 0
        standing = {row.recipient_id: row.status for row in site.rows()}
        assert standing == dict.fromkeys(refusals, "failed") | {"full": "deferred"}


async def test_a_suppression_that_comes_after_the_claim_is_met_when_the_attempt_is_opened(
    site: Site,
) -> None:
    """Two rows of one address: what the first proves stops the second, whenever it was claimed."""
    site.settings["channels"]["email"]["slots"] = "1"
    async with relay_of(site) as relay:
        await site.planned({"one": DEAD, "two": DEAD})
        await drained(site)
        assert sorted(row.status for row in site.rows()) == ["failed", "suppressed"]
        assert site.count("attempt") == 1
        assert relay.accepted == 0


async def test_an_intent_past_its_last_instant_fails_as_expired_without_an_attempt(
    site: Site,
) -> None:
    async with relay_of(site) as relay:
        ends = datetime.now(UTC) + timedelta(seconds=4)
        site.batch["not_after"] = ends.isoformat()
        await site.planned(people(2))
        await until(lambda: site.select("SELECT now() > %s", ends) == [(True,)])
        await drained(site)
        assert {(row.status, row.rule, row.attempts) for row in site.rows()} == {
            ("failed", "policy.expired", 0)
        }
        assert site.count("attempt") == relay.connections.total == 0
        assert [(kind, cause) for kind, cause, _ in site.tasks()] == [("failed", "policy.expired")]


async def test_a_retry_that_would_come_too_late_is_not_made(site: Site) -> None:
    site.policy["retry"]["delays"] = ["2h"]
    async with relay_of(site):
        site.batch["not_after"] = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
        await site.planned({"later": "later+rcpt-452-4.3.0@home.test"})
        await drained(site)
        assert (site.row("later").status, site.row("later").rule) == ("failed", "policy.expired")
        assert site.row("later").attempts == 1


async def test_a_message_that_cannot_be_written_any_more_fails_its_own_row_only(
    site: Site,
) -> None:
    """Planning writes every message once; what was stored may have been changed or erased since."""
    async with relay_of(site) as relay:
        await site.planned(people(6))
        site.select(
            "UPDATE sendledger.recipient_secret SET variables = %s WHERE recipient_id = 's2'",
            '{"name": "Ann\\r\\nBcc: spy@evil.example"}',
        )
        site.select(
            "UPDATE sendledger.recipient_secret SET variables = '{}' WHERE recipient_id = 's3'"
        )
        site.select("DELETE FROM sendledger.recipient_secret WHERE recipient_id = 's4'")
        await drained(site)
        rules = {row.recipient_id: (row.status, row.rule, row.attempts) for row in site.rows()}
        assert rules.pop("s2") == ("failed", "content.header-injection", 0)
        assert rules.pop("s3") == ("failed", "content.variable-missing", 0)
        assert {status for status, *_ in rules.values()} == {"submitted"}
        assert site.select(
            "SELECT d.status, o.rule FROM sendledger.delivery AS d"
            " JOIN sendledger.observation AS o ON o.intent_id = d.intent_id AND o.seq = d.because"
            " WHERE NOT EXISTS (SELECT FROM sendledger.recipient_secret AS s"
            " WHERE s.intent_id = d.intent_id)"
        ) == [("failed", "content.erased")]
        assert {kind for kind, *_ in site.tasks()} == {"failed"}
    assert len(read_journal(relay.journal)) == 3


async def test_a_row_that_was_claimed_again_and_again_is_held_as_poison_and_stops_nobody(
    site: Site,
) -> None:
    async with relay_of(site):
        await site.planned(people(6))
        site.select(
            "UPDATE sendledger.delivery SET claims = 20 WHERE intent_id = %s",
            site.row("s1").intent_id,
        )
        await drained(site)
        poison = site.row("s1")
        assert (poison.status, poison.awaits, poison.rule) == (
            "planned",
            "release",
            "policy.poison",
        )
        assert poison.attempts == 0
        assert [row.status for row in site.rows()[1:]] == ["submitted"] * 5
        assert [(kind, cause) for kind, cause, _ in site.tasks()] == [("held", "policy.poison")]
        resumed = await site.tell("resume", "policy.poison")
        assert resumed.out == "resumed; 1 row released\n"
        await drained(site)
        assert site.row("s1").status == "submitted"


async def test_transactional_rows_do_not_wait_for_a_long_bulk_batch(site: Site) -> None:
    site.settings["channels"]["email"]["slots"] = "1"
    async with relay_of(site, script=["stall-mail-0.02"]) as relay:
        await site.planned(people(60))
        async with working(site):
            await until(lambda: relay.accepted > 0)
            site.batch.update(content_revision="code", lane="transactional")
            await site.planned({"urgent": "urgent@home.test"})
            await until(lambda: site.row("urgent").status == "submitted")
            assert any(row.status == "planned" for row in site.rows())


async def test_content_that_the_settings_no_longer_serve_is_held_until_they_do(site: Site) -> None:
    """A way out was promised when it was planned; without it nothing is sent, and nobody fails for it."""
    site.relay["unsubscribe_url"] = "https://send.school.example/u"
    async with relay_of(site) as relay:
        await site.planned(people(2))
        url = site.relay.pop("unsubscribe_url")
        site.write()
        await drained(site)
        assert {(row.status, row.awaits, row.cause, row.attempts) for row in site.rows()} == {
            ("planned", "release", "content.setting-unmet", 0)
        }
        assert len(site.tasks()) == 1
        site.relay["unsubscribe_url"] = url
        site.write()
        assert (await site.tell("resume", "content.setting-unmet")).code == 0
        await drained(site)
        assert {row.status for row in site.rows()} == {"submitted"}
    assert len(read_journal(relay.journal)) == 2
