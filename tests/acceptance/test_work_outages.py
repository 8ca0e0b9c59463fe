"""Outages of the relay: they cost no attempt and no person, and end by themselves."""

from __future__ import annotations

from acceptance.rig import Site, people, relay_of, until, working
from sendledger_sandbox import read_journal


async def test_refused_connections_cost_no_attempt_and_close_the_channel_until_a_probe_succeeds(
    site: Site,
) -> None:
    async with relay_of(site) as relay:
        await relay.close()
        await site.planned(people(8))
        async with working(site):
            await until(lambda: site.count("back_off") == 1)
            assert site.count("attempt") == 0
            shown = await site.run("status")
            assert "backing off channel:email" in shown.out
            assert "smtp.broken" in shown.out
            await relay.reopen()
            await until(lambda: all(row.status == "submitted" for row in site.rows()))
        assert site.count("back_off") == 0
        assert {row.attempts for row in site.rows()} == {1}
        assert site.tasks() == []
    assert len(read_journal(relay.journal)) == 8
