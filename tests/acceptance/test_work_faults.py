"""Faults of the configuration: they pause what is at fault, ask once, and never fail a recipient."""

from __future__ import annotations

import pytest

from acceptance.rig import Site, drained, people, relay_of, until, working, write_private
from sendledger_sandbox import Credentials, read_journal

PROBE_S = 2.0
"""A row that found no session is tried again a probe later; this is longer."""

SENDER = "sender:email/reports@school.example"


def log_in(site: Site, password: str) -> None:
    write_private(site.folder / "password", password)
    site.relay.update(username="reports", password={"$file": "password"})
    site.write()


async def test_refused_credentials_pause_the_channel_once_and_a_person_resumes_it(
    site: Site,
) -> None:
    log_in(site, "wrong-secret")
    async with relay_of(
        site, credentials=Credentials(user="reports", password="right-secret")
    ) as relay:
        await site.planned(people(6))
        async with working(site):
            await until(lambda: site.paused() == ["channel:email"])
            assert_nobody_suffered(site, rule="smtp.auth-refused")
            assert relay.auth_tries < 6 + 1
            shown = await site.tell("status")
            assert "paused channel:email" in shown.out
            assert "sendledger resume channel:email" in shown.out
            relay.credentials = Credentials(user="reports", password="wrong-secret")
            resumed = await site.tell("resume", "channel:email")
            assert resumed.code == 0
            await until(lambda: all(row.status == "submitted" for row in site.rows()))
        assert site.tasks() == []
        assert {row.attempts for row in site.rows()} == {1}
    assert len(read_journal(relay.journal)) == 6


async def test_another_password_resumes_the_channel_at_the_next_start(site: Site) -> None:
    log_in(site, "wrong-secret")
    async with relay_of(site, credentials=Credentials(user="reports", password="right-secret")):
        await site.planned(people(3))
        await drained(site)
        assert site.paused() == ["channel:email"]
        await drained(site)
        assert site.paused() == ["channel:email"], "nothing had changed"
        log_in(site, "right-secret")
        await drained(site, within_s=PROBE_S)
        assert {row.status for row in site.rows()} == {"submitted"}
        assert site.select("SELECT ended_by FROM sendledger.pause") == [("configuration changed",)]
        assert site.tasks() == []


async def test_a_refusing_greeting_pauses_the_channel_and_fails_nobody(site: Site) -> None:
    greeting = b"554 5.3.2 no service for you\r\n"
    async with relay_of(site, greeting=greeting) as relay:
        await site.planned(people(5))
        await drained(site)
        assert site.paused() == ["channel:email"]
        assert_nobody_suffered(site, rule="smtp.greeting-refused")
        [(stage, code, literal)] = site.select(
            "SELECT stage, reply_code, literal FROM sendledger.pause"
        )
        assert (stage, code, bytes(literal)) == ("greeting", 554, greeting)
        relay.greeting = None
        await site.tell("resume", "channel:email")
        await drained(site, within_s=PROBE_S)
        assert {row.status for row in site.rows()} == {"submitted"}


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        ("mail-550-5.7.1", "smtp.sender-refused"),
        ("mail-550-5.1.8", "smtp.sender-address-refused"),
    ],
)
async def test_a_refused_sender_is_paused_and_its_rows_go_out_as_their_second_attempt_when_resumed(
    site: Site, script: str, rule: str
) -> None:
    async with relay_of(site, script=[script]) as relay:
        await site.planned(people(6))
        async with working(site):
            await until(lambda: site.paused() == [SENDER])
            await until(lambda: {row.awaits for row in site.rows()} == {"release"})
            rows = site.rows()
            assert {row.cause for row in rows} == {SENDER}
            met = {row.intent_id for row in rows if row.status == "deferred"}
            assert {row.status for row in rows} <= {"planned", "deferred"}
            assert {row.spent for row in rows} == {0}
            assert site.tasks() == [("paused", rule, SENDER)]
            relay.play()
            resumed = await site.tell("resume", SENDER)
            assert resumed.out == "resumed; 6 rows released\n"
            await until(lambda: all(row.status == "submitted" for row in site.rows()))
        assert site.tasks() == []
        assert {row.intent_id for row in site.rows() if row.attempts == 2} == met
        assert met
        authorised = site.select(
            "SELECT a.intent_id, o.ruling, o.authorises, o.actor IS NOT NULL"
            " FROM sendledger.attempt AS a JOIN sendledger.observation AS o"
            " ON o.intent_id = a.intent_id AND o.seq = a.decision_seq WHERE a.number = 2"
        )
        assert {row[0] for row in authorised} == met
        assert {row[1:] for row in authorised} == {("release", 2, True)}
    assert len(read_journal(relay.journal)) == 6


async def test_a_pause_by_a_person_outlives_a_changed_configuration(site: Site) -> None:
    async with relay_of(site):
        await site.planned(people(1))
        await site.tell("pause", "channel:email")
        site.relay["sender_name"] = "Another Name"
        site.write()
        await drained(site)
        assert site.paused() == ["channel:email"]
        assert site.row("s1").attempts == 0


def assert_nobody_suffered(site: Site, *, rule: str) -> None:
    """No attempt, no failure, no suppression; one task that names the rule."""
    assert site.count("attempt") == site.count("suppression") == 0
    assert {(row.status, row.awaits) for row in site.rows()} == {("planned", "dispatch")}
    assert site.tasks() == [("paused", rule, "channel:email")]
