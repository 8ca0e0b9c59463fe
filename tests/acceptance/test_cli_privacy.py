"""Nothing about a person is printed or logged by any command; only ``explain --who`` says who."""

from __future__ import annotations

import pytest

from acceptance.rig import Ran, Site, ended, relay_of, until, write_private
from sendledger_sandbox import Credentials
from smtp_kit import AT_RCPT, BYE
from smtp_peer import ScriptedPeer

LOCAL, DOMAIN, NAME, BODY = "kanarienvogel", "voliere.test", "Wellensittich", "Geheimnis-des-Textes"
PASSWORD = "pa55-der-Voliere"
IDENTITY = "schueler-4711"
CANARIES = (LOCAL, DOMAIN, NAME, BODY, PASSWORD, IDENTITY)


def assert_says_nothing(ran: Ran) -> None:
    said = ran.all.lower()
    assert [canary for canary in CANARIES if canary.lower() in said] == []
    assert "Traceback" not in ran.all


@pytest.fixture
def cage(site: Site) -> Site:
    """Return an installation whose every recipient, name and text is a canary."""
    site.batch["content"]["text"] = BODY + " {{name}}"
    return site


def plan_of(site: Site, rows: dict[str, str], name: str = NAME) -> Ran:
    site.write()
    site.write_recipients(rows, dict.fromkeys(rows, name))
    return plan_again(site)


def plan_again(site: Site) -> Ran:
    return site.called("plan", f"{site.folder}/batch.yaml", "-r", f"{site.folder}/recipients.csv")


def test_planning_says_nothing_of_anybody_whatever_is_wrong(cage: Site) -> None:
    good = {IDENTITY: f"{LOCAL}@{DOMAIN}"}
    assert_says_nothing(planned := plan_of(cage, good))
    assert planned.code == 0
    rejected = plan_of(cage, {f"{IDENTITY}-2": f"{LOCAL}@@{DOMAIN}"})
    assert rejected.code == 1
    assert_says_nothing(rejected)
    assert_says_nothing(plan_of(cage, {f"{IDENTITY}-3": f"{LOCAL}@{DOMAIN}"}, f"{NAME}\r\nBcc: x"))
    conflict = plan_of(cage, good, f"Other {NAME}")
    assert conflict.code == 2
    assert_says_nothing(conflict)
    (cage.folder / "recipients.csv").write_text(f"{IDENTITY},{LOCAL}@{DOMAIN},{NAME}\n")
    headless = plan_again(cage)
    assert headless.code == 2
    assert_says_nothing(headless)
    (cage.folder / "recipients.csv").write_text(f'id,email,name\n"{IDENTITY},{LOCAL}@{DOMAIN}\n')
    assert_says_nothing(plan_again(cage))
    cage.batch["content"]["text"] = f"{BODY} {{{{{{name}}}}}}"
    assert_says_nothing(plan_of(cage, good))


OUTCOMES = ["", "+rcpt-550-5.1.1", "+greylist-1", "+lose-answer", "+dot-554-5.7.1", "+drop-data"]


@pytest.mark.parametrize("log", [["--log-json", "--log-level", "debug"], []])
async def test_a_worker_says_nothing_of_anybody_whatever_the_relay_does(
    cage: Site, log: list[str]
) -> None:
    write_private(cage.folder / "password", PASSWORD)
    cage.relay.update(username="reports", password={"$file": "password"})
    account = Credentials(user="reports", password=PASSWORD)
    async with relay_of(cage, credentials=account) as relay:
        cage.batch["content"]["text"] = BODY + " {{name}}"
        people = {f"{IDENTITY}-{n}": f"{LOCAL}{o}@{DOMAIN}" for n, o in enumerate(OUTCOMES)}
        await cage.planned(people, dict.fromkeys(people, NAME))
        async with cage.process("work", *log) as worker:
            await until(lambda: not any(row.status == "planned" for row in cage.rows()))
            await relay.close()
            worker.terminate()
            worked = await ended(worker)
        assert worked.code == 0
        assert_says_nothing(worked)
        relay.credentials = Credentials(user="reports", password="another")
        await relay.reopen()
        cage.batch["content_revision"] = "r2"
        await cage.planned(people, dict.fromkeys(people, NAME))
        assert_says_nothing(await cage.run("work", "--drain", *log))
    for command in (["status"], ["stuck"], ["tasks"], ["rebuild", "--verify"], ["check"]):
        assert_says_nothing(await cage.tell(*command))
        assert_says_nothing(await cage.tell(*command, "--json"))


async def test_only_who_is_asked_for_is_told_even_where_the_server_quotes_them(
    cage: Site,
) -> None:
    reply = f"550 5.1.1 <{LOCAL}@{DOMAIN}> not found; no user {LOCAL.upper()} here\r\n"
    async with ScriptedPeer(scripts=[[*AT_RCPT, {"send": reply}, *BYE]]) as peer:
        cage.relay["port"] = str(peer.port)
        await cage.planned({IDENTITY: f"{LOCAL}@{DOMAIN}"}, {IDENTITY: NAME})
        assert_says_nothing(await cage.run("work", "--drain"))
    key = cage.row(IDENTITY).key
    for flags in ([], ["--json"]):
        told = await cage.tell("explain", key, *flags)
        assert_says_nothing(told)
        assert "550 5.1.1 <[hidden]> not found; no user [hidden] here" in " ".join(told.out.split())
        asked = await cage.tell("explain", key, "--who", *flags)
        assert IDENTITY in asked.out
        assert f"{LOCAL}@{DOMAIN}" in asked.out
        assert f"no user {LOCAL.upper()} here" in " ".join(asked.out.split())
