"""The Twilio stand-in as the vendor's own SDK sees it: resources, lists, changes and errors."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from twilio.base.exceptions import TwilioRestException
from twilio.rest import Client

from sendledger_sandbox.twilio import SENDER, TwilioStandIn, read_journal
from stand_in_kit import PLEASANT, SDK_WARNS, ask, create, number, post, sdk

pytestmark = pytest.mark.filterwarnings(SDK_WARNS)

SERVICE = f"MG{1:032x}"


@pytest.fixture
async def twilio(tmp_path: Path) -> AsyncIterator[TwilioStandIn]:
    async with TwilioStandIn(journal=tmp_path / "journal", step_s=0) as stand_in:
        yield stand_in


@pytest.fixture
async def client(twilio: TwilioStandIn) -> AsyncIterator[Client]:
    async with sdk(twilio) as client:
        yield client


async def test_what_is_created_is_queued_and_then_delivered(
    twilio: TwilioStandIn, client: Client
) -> None:
    made = await client.messages.create_async(to=PLEASANT, from_=SENDER, body="hello")
    assert (made.status, made.num_segments, made.date_sent) == ("queued", "1", None)
    await twilio.at_rest()
    found = await client.messages(made.sid).fetch_async()
    assert (found.status, found.to, found.from_, found.body) == (
        "delivered", PLEASANT, SENDER, "hello",
    )  # fmt: skip
    assert (found.error_code, found.account_sid) == (None, twilio.account_sid)
    assert found.date_sent is not None


async def test_a_messaging_service_accepts_first_and_chooses_the_sender_later(
    twilio: TwilioStandIn, client: Client
) -> None:
    made = await client.messages.create_async(
        to=PLEASANT, messaging_service_sid=SERVICE, body="hello"
    )
    assert (made.status, made.from_, made.num_segments) == ("accepted", None, "0")
    await twilio.at_rest()
    found = await client.messages(made.sid).fetch_async()
    assert (found.status, found.from_, found.messaging_service_sid) == (
        "delivered", SENDER, SERVICE,
    )  # fmt: skip


async def test_a_list_is_read_page_by_page(twilio: TwilioStandIn, client: Client) -> None:
    made = [
        await client.messages.create_async(to=PLEASANT, from_=SENDER, body=f"hello {n}")
        for n in range(7)
    ]
    await client.messages.create_async(to=number(2), from_=SENDER, body="another")
    await twilio.at_rest()
    day = datetime.now(UTC)
    found = await client.messages.list_async(
        to=PLEASANT,
        from_=SENDER,
        date_sent_after=day - timedelta(days=1),
        date_sent_before=day + timedelta(days=1),
        page_size=3,
    )
    assert [one.sid for one in found] == [one.sid for one in reversed(made)]
    assert twilio.look_ups == 3
    later = await client.messages.list_async(to=PLEASANT, date_sent_after=day + timedelta(days=2))
    assert later == []


async def test_a_body_is_redacted_and_a_finished_message_deleted(
    twilio: TwilioStandIn, client: Client
) -> None:
    made = await client.messages.create_async(to=PLEASANT, from_=SENDER, body="hello")
    await twilio.at_rest()
    assert (await client.messages(made.sid).update_async(body="")).body == ""
    assert await client.messages(made.sid).delete_async()
    with pytest.raises(TwilioRestException) as caught:
        await client.messages(made.sid).fetch_async()
    assert (caught.value.status, caught.value.code) == (404, 20404)
    assert await client.messages.list_async(to=PLEASANT) == []


async def test_only_what_is_scheduled_can_be_cancelled(client: Client) -> None:
    kept = await client.messages.create_async(
        to=PLEASANT,
        messaging_service_sid=SERVICE,
        body="hello",
        schedule_type="fixed",
        send_at=datetime.now(UTC) + timedelta(hours=1),
    )
    assert kept.status == "scheduled"
    with pytest.raises(TwilioRestException) as caught:
        await client.messages(kept.sid).delete_async()
    assert (caught.value.status, caught.value.code) == (409, 20009)
    assert (await client.messages(kept.sid).update_async(status="canceled")).status == "canceled"
    made = await client.messages.create_async(to=PLEASANT, from_=SENDER, body="hello")
    with pytest.raises(TwilioRestException) as caught:
        await client.messages(made.sid).update_async(status="canceled")
    assert caught.value.code == 30409
    await client.messages(kept.sid).delete_async()


# --- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({"To": ""}, 21604),
        ({"From": ""}, 21603),
        ({"Body": ""}, 21602),
        ({"To": "+1202555"}, 21211),
        ({"To": "parent"}, 21211),
        ({"From": "+15005550001"}, 21212),
        ({"From": "a sender too long"}, 21212),
        ({"From": "+15005550007"}, 21606),
        ({"From": "+12025550142"}, 21606),
        ({"From": "+15005550008"}, 21611),
        ({"Body": "x" * 1601}, 21617),
        ({"StatusCallback": "callbacks"}, 21609),
        ({"StatusCallback": "ftp://reports.example/"}, 21609),
        ({"StatusCallback": "https://reports.example:port/"}, 21609),
        ({"StatusCallback": "https://our_reports.example/"}, 21609),
        ({"StatusCallback": "https://reports.example/" + "x" * 4000}, 21609),
        ({"To": "+12025550103"}, 21610),
        ({"ScheduleType": "fixed", "SendAt": "later"}, 30400),
    ],
)
async def test_a_request_that_is_not_in_order_is_refused_with_twilios_code(
    twilio: TwilioStandIn, form: dict[str, str], code: int
) -> None:
    twilio.senders, twilio.opted_out = {SENDER}, {"+12025550103"}
    asked = {"To": PLEASANT, "From": SENDER, "Body": "hello"} | form
    answer = await post(twilio, "Messages.json", asked)
    body = json.loads(answer.body)
    assert (answer.status, body["code"], body["status"]) == (400, code, 400)
    assert body["more_info"].endswith(f"/{code}")
    assert twilio.accepted == 0


async def test_the_longest_body_is_accepted(twilio: TwilioStandIn) -> None:
    answer = await create(twilio, Body="x" * 1600)
    assert json.loads(answer.body)["num_segments"] == "11"


@pytest.mark.parametrize("user", ["account", "key", "stranger"])
async def test_a_wrong_secret_is_refused_whoever_has_it(twilio: TwilioStandIn, user: str) -> None:
    twilio.api_keys = {f"SK{1:032x}": "secret of the key"}
    name = {"account": twilio.account_sid, "key": f"SK{1:032x}", "stranger": f"AC{2:032x}"}[user]
    async with sdk(twilio, user=name, password="wrong") as client:
        with pytest.raises(TwilioRestException) as caught:
            await client.messages.create_async(to=PLEASANT, from_=SENDER, body="hello")
    assert (caught.value.status, caught.value.code) == (401, 20003)


async def test_an_api_key_is_as_good_as_the_token(twilio: TwilioStandIn) -> None:
    twilio.api_keys = {f"SK{1:032x}": "secret of the key"}
    async with sdk(twilio, user=f"SK{1:032x}", password="secret of the key") as client:
        made = await client.messages.create_async(to=PLEASANT, from_=SENDER, body="hello")
    assert made.account_sid == twilio.account_sid


async def test_what_is_not_there_is_not_found(twilio: TwilioStandIn) -> None:
    for method, path in (
        ("GET", f"Messages/SM{1:032x}.json"),
        ("DELETE", f"Messages/SM{1:032x}.json"),
        ("GET", "Calls.json"),
    ):
        answer = await ask(twilio, method, path)
        assert (answer.status, json.loads(answer.body)["code"]) == (404, 20404)
    assert (await ask(twilio, "PUT", "Messages.json")).status == 405
    assert (await ask(twilio, "GET", "Messages.json?PageSize=0")).status == 400


async def test_a_change_that_is_neither_redaction_nor_cancellation_is_refused(
    twilio: TwilioStandIn,
) -> None:
    sid = json.loads((await create(twilio)).body)["sid"]
    for form in ({}, {"Body": "other"}, {"Body": "", "Status": "canceled"}, {"Status": "sent"}):
        answer = await post(twilio, f"Messages/{sid}.json", form)
        assert json.loads(answer.body)["code"] == 30400


async def test_a_journal_that_cannot_be_written_accepts_nothing(
    twilio: TwilioStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        answer = await create(twilio)
    assert (answer.status, json.loads(answer.body)["code"]) == (500, 20500)
    assert (twilio.accepted, read_journal(twilio.journal).accepted) == (0, ())
    assert (await create(twilio)).status == 201


# --- the journal -----------------------------------------------------------------------------------


async def test_the_journal_names_the_attempt_and_keeps_no_body(
    twilio: TwilioStandIn, tmp_path: Path
) -> None:
    url = "http://127.0.0.1:9/callbacks/sms/TOKEN"
    answer = await create(twilio, Body="a secret", StatusCallback=url)
    [entry] = read_journal(tmp_path / "journal").accepted
    assert (entry.sid, entry.to) == (json.loads(answer.body)["sid"], PLEASANT)
    assert (entry.sender, entry.token) == (SENDER, "TOKEN")
    assert b"a secret" not in (tmp_path / "journal").read_bytes()


async def test_what_was_accepted_outlives_an_absence_on_the_same_port(
    twilio: TwilioStandIn, client: Client
) -> None:
    made = await client.messages.create_async(to=PLEASANT, from_=SENDER, body="hello")
    port = twilio.port
    await twilio.close()
    assert (await create(twilio)).status is None
    await twilio.reopen()
    assert twilio.port == port
    assert (await ask(twilio, "GET", f"Messages/{made.sid}.json")).status == 200
