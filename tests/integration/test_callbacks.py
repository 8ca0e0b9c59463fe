"""Receipts over HTTP: verified, committed, then acknowledged; what is refused changes and teaches nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import aiohttp
import pytest

from acceptance.door import Door
from acceptance.rig import Site, drained, until, working
from plugins_for_tests.courier import SIGNATURE, Office, form, office, signed
from reception_kit import PUBLIC_URL, FrontDoor, courier_site, front_door, path_of
from sendledger.logs import configure_logs
from sendledger.web import callbacks

NOBODY = "/callbacks/letter/" + "a" * 44
LOCK = "LOCK TABLE sendledger.inbox IN ACCESS EXCLUSIVE MODE"


@pytest.fixture
def site(
    tmp_path: Path, database: str, installation_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    with courier_site(tmp_path, database, installation_id, monkeypatch) as (site, _):
        yield site


async def sent(site: Site, count: int = 1) -> Office:
    """Send letters, and return the office that took them."""
    await site.planned({f"s{n}": f"pat{n}@home.test" for n in range(count)})
    await drained(site)
    assert len(office.submitted) == count
    return office


def waiting(site: Site) -> list[str]:
    found = site.select("SELECT identity FROM sendledger.inbox ORDER BY inbox_id")
    return [row[0] for row in found]


# --- what is taken in ------------------------------------------------------------------------


async def test_each_envelope_carries_a_url_of_its_own_under_the_public_one(site: Site) -> None:
    await sent(site, 3)
    urls = [letter.callback_url for letter in office.submitted]
    assert urls == [f"{PUBLIC_URL}/callbacks/letter/{each.token}" for each in office.submitted]
    assert len(set(urls)) == 3


async def test_a_genuine_receipt_is_in_the_inbox_when_it_is_acknowledged(site: Site) -> None:
    await sent(site)
    async with front_door(site) as door:
        assert await door.tell("arrived") == 204
        assert waiting(site) == ["1/arrived"]
        assert door.counted("sendledger_callbacks_total", channel="letter", answer="kept") == 1
    [(body,)] = site.select("SELECT body FROM sendledger.inbox")
    assert body == form("arrived")


async def test_a_worker_folds_what_came_in_without_being_asked(site: Site) -> None:
    await sent(site)
    async with working(site), front_door(site) as door:
        assert await door.tell("arrived") == 204
        await until(lambda: site.row("s0").status == "delivered")
    assert waiting(site) == []


async def test_repeats_at_once_are_acknowledged_and_kept_once(site: Site) -> None:
    await sent(site)
    async with front_door(site) as door:
        answers = await asyncio.gather(*(door.tell("arrived") for _ in range(20)))
    assert set(answers) == {204}
    assert waiting(site) == ["1/arrived"]


async def test_a_receipt_that_says_nothing_of_a_delivery_is_acknowledged_and_not_kept(
    site: Site,
) -> None:
    await sent(site)
    async with front_door(site) as door:
        assert await door.tell("hello") == 204
    assert waiting(site) == []


async def test_the_signature_is_over_the_public_url_whatever_the_request_says_of_its_host(
    site: Site,
) -> None:
    await sent(site)
    body = form("arrived")
    elsewhere = {
        "Host": "evil.example",
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Proto": "x",
    }
    async with front_door(site) as door:
        genuine = signed(f"{PUBLIC_URL}{path_of()}", body) | elsewhere
        assert await door.post(path_of(), body, genuine) == 204
        forged = signed(f"x://evil.example{path_of()}", body) | elsewhere
        assert await door.post(path_of(), body, forged) == 403


async def test_the_query_is_part_of_what_is_signed(site: Site) -> None:
    await sent(site)
    async with front_door(site) as door:
        assert await door.post(path_of(), form("sent"), query="?bodySHA256=1") == 204
        other = signed(f"{PUBLIC_URL}{path_of()}", form("arrived"))
        assert await door.post(path_of(), form("arrived"), other, query="?x=1") == 403
    assert waiting(site) == ["1/sent"]


# --- what is refused -------------------------------------------------------------------------


async def test_what_is_not_signed_by_the_provider_is_refused_and_nothing_is_kept(
    site: Site,
) -> None:
    await sent(site)
    body = form("arrived")
    url = f"{PUBLIC_URL}{path_of()}"
    plain = {"content-type": "application/x-www-form-urlencoded"}
    async with front_door(site) as door:
        assert await door.post(path_of(), body, plain) == 403
        assert await door.post(path_of(), body, plain | {SIGNATURE: "0" * 64}) == 403
        assert await door.post(path_of(), body, signed(url, body, "another key")) == 403
        assert await door.post(path_of(), body, signed(url, form("sent"))) == 403
        refused = {"channel": "letter", "reason": "signature"}
        assert door.counted("sendledger_callbacks_refused_total", **refused) == 4
    assert waiting(site) == []
    assert site.row("s0").status == "submitted"


async def test_a_token_of_nobody_and_a_channel_of_nobody_are_told_alike(site: Site) -> None:
    await sent(site)
    token = office.submitted[0].token
    tampered = token[:20] + ("a" if token[20] != "a" else "b") + token[21:]
    unknown = [
        NOBODY,
        f"/callbacks/letter/{tampered}",
        f"/callbacks/letter/{token[:-1]}",
        f"/callbacks/nobody/{token}",
        f"/callbacks/letter/{token}/more",
        "/callbacks/letter/",
        "/nothing",
    ]
    async with front_door(site) as door:
        answers = [await heard(door, path) for path in unknown]
    assert {status for status, _ in answers} == {404}
    assert len({shown for _, shown in answers}) == 1


async def heard(door: FrontDoor, path: str) -> tuple[int, frozenset[tuple[str, str]]]:
    """Return status and headers of a receipt posted to *path*, but for the time."""
    headers = signed(f"{PUBLIC_URL}{path}", form("arrived"))
    where = f"http://{door.address}{path}"
    async with door.client.post(where, data=form("arrived"), headers=headers) as answer:
        shown = {(name.lower(), value) for name, value in answer.headers.items()}
        return answer.status, frozenset(pair for pair in shown if pair[0] != "date")


async def test_only_a_post_of_a_form_or_json_of_bounded_size_is_read(site: Site) -> None:
    await sent(site)
    where = path_of()
    async with front_door(site) as door:
        async with door.client.get(f"http://{door.address}{where}") as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        assert await door.post(where, b"{}", {"content-type": "text/xml"}) == 415
        assert await door.post(where, b"", {"content-type": ""}) == 415
        long = b"word=sent&event=" + b"x" * 70_000
        assert await door.post(where, long) == 413
        assert await door.post(where, b"nothing=1") == 400
    assert waiting(site) == []


async def test_a_bug_of_the_channel_is_a_500_that_shows_nothing(site: Site) -> None:
    await sent(site)
    async with front_door(site) as door:
        assert await door.tell("burst") == 500
        assert await door.tell("bytes") == 500
        assert door.desk.host.faults["letter", "sendledger_read_callback"] == 2
        assert await door.tell("arrived") == 204


async def test_a_sender_that_goes_away_in_the_middle_harms_nobody(site: Site) -> None:
    await sent(site)
    async with front_door(site) as door:
        _, writer = await asyncio.open_connection(door.address.host, door.address.port)
        head = f"POST {path_of()} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
        form_type = "Content-Type: application/x-www-form-urlencoded\r\n\r\n"
        writer.write(f"{head}{form_type}word=".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        assert await door.tell("arrived") == 204
    assert waiting(site) == ["1/arrived"]


# --- when somebody must look -----------------------------------------------------------------


async def test_refusals_one_after_the_other_open_a_task_that_the_next_good_one_closes(
    site: Site,
) -> None:
    await sent(site)
    url = f"{PUBLIC_URL}{path_of()}"
    async with front_door(site) as door:
        for _ in range(9):
            await door.post(path_of(), form("sent"), signed(url, form("sent"), "rotated"))
        assert site.tasks() == []
        await door.post(path_of(), form("sent"), signed(url, form("sent"), "rotated"))
        assert site.tasks() == [("receipts-refused", "signature", "channel:letter")]
        for _ in range(12):
            await door.post(NOBODY, form("sent"))
        assert await door.tell("sent") == 204
    assert site.tasks() == []


async def test_a_token_of_nobody_never_makes_a_task(site: Site) -> None:
    await sent(site)
    async with front_door(site) as door:
        for _ in range(25):
            await door.post(NOBODY, form("sent"))
    assert site.tasks() == []


# --- when the database is away ---------------------------------------------------------------


async def test_while_nothing_can_be_kept_the_sender_is_told_to_come_again(site: Site) -> None:
    await sent(site)
    async with Door(site.dsn) as way, front_door(site, dsn=way.dsn) as door:
        assert await door.tell("sent") == 204
        await way.shut()
        headers = signed(f"{PUBLIC_URL}{path_of()}", form("arrived"))
        where = f"http://{door.address}{path_of()}"
        async with door.client.post(where, data=form("arrived"), headers=headers) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        assert await health(door) == 503
        assert await health(door, "/live") == 200
        assert waiting(site) == ["1/sent"]
        await way.open()
        await until_kept(door)
    assert waiting(site) == ["1/sent", "1/arrived"]


async def health(door: FrontDoor, of: str = "") -> int:
    """Return the status of a question about health."""
    async with door.client.get(f"http://{door.address}/health{of}") as answer:
        return answer.status


async def until_kept(door: FrontDoor) -> None:
    """Come again until the receipt is kept, as a provider does; twenty seconds at most."""
    async with asyncio.timeout(20):
        while await door.tell("arrived") != 204:
            pass


# --- what is said ----------------------------------------------------------------------------


async def test_the_log_names_routes_and_never_a_path_a_token_or_a_person(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    await sent(site)
    configure_logs(json=True, level="debug")
    try:
        async with front_door(site) as door:
            await door.tell("arrived")
            await door.tell("burst")
            await door.post(path_of(), form("arrived"), {})
            await door.post(NOBODY, form("arrived"))
            await door.client.get(f"http://{door.address}/secret/pat@home.test")
    finally:
        configure_logs(json=False, level="info")
    said = capsys.readouterr().err
    assert '"route": "/callbacks/{channel}/{token}"' in said
    assert '"route": "none"' in said
    for hidden in (office.submitted[0].token, "a" * 44, "pat", "home.test", "secret"):
        assert hidden not in said
    assert logging.getLogger("uvicorn.access").handlers == []


async def test_what_has_begun_is_finished_when_the_server_stops(site: Site) -> None:
    await sent(site)
    with_lock = asyncio.Event()
    done = asyncio.Event()

    async def hold() -> None:
        async with door.desk.database.transaction() as connection:
            await connection.execute(LOCK.encode())
            with_lock.set()
            await done.wait()

    async with front_door(site) as door:
        holding = asyncio.create_task(hold())
        await with_lock.wait()
        begun = asyncio.create_task(door.tell("arrived"))
        await until(lambda: stuck(site))
        asyncio.get_running_loop().call_later(0.2, done.set)
    await holding
    assert await begun == 204
    assert waiting(site) == ["1/arrived"]


def stuck(site: Site) -> int:
    """Return how many sessions wait for a lock."""
    return int(
        site.select(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )[0][0]
    )


async def test_the_process_says_whether_it_is_well(site: Site) -> None:
    async with front_door(site) as door:
        async with door.client.get(f"http://{door.address}/health") as answer:
            assert answer.status == 200
            assert await answer.json() == {
                "status": "ready", "database": True, "schema": True, "listening": None,
            }  # fmt: skip
        site.select("UPDATE public.sendledger_schema_version SET version_num = '0000'")
        async with door.client.get(f"http://{door.address}/health/ready") as answer:
            assert answer.status == 503
            assert (await answer.json())["schema"] is False


async def test_an_answer_never_names_the_server(site: Site) -> None:
    async with front_door(site) as door, door.client.get(f"http://{door.address}/") as answer:
        assert "server" not in {name.lower() for name in answer.headers}
    assert isinstance(answer, aiohttp.ClientResponse)


async def test_a_body_that_does_not_come_is_not_waited_for_for_ever(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks, "BODY_WITHIN_S", 0.1)
    await sent(site)
    async with front_door(site) as door:
        reader, writer = await asyncio.open_connection(door.address.host, door.address.port)
        head = f"POST {path_of()} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
        writer.write(f"{head}Content-Type: application/json\r\n\r\n{{".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        writer.close()
        await writer.wait_closed()
