"""Status callbacks of the Twilio stand-in, as whoever is called back sees them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from twilio.request_validator import RequestValidator

from sendledger_sandbox.twilio import (
    AUTH_TOKEN,
    Called,
    Phase,
    TwilioStandIn,
    Where,
    read_journal,
)
from stand_in_kit import DEADLINE_S, Heard, Receiver, create, number


@pytest.fixture
async def twilio(tmp_path: Path) -> AsyncIterator[TwilioStandIn]:
    async with TwilioStandIn(journal=tmp_path / "journal", step_s=0) as stand_in:
        yield stand_in


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


def genuine(heard: Heard) -> bool:
    signature = heard.headers["X-Twilio-Signature"]
    return bool(RequestValidator(AUTH_TOKEN).validate(heard.url, dict(heard.form), signature))


def called(twilio: TwilioStandIn) -> list[Called]:
    return list(read_journal(twilio.journal).callbacks)


async def play(twilio: TwilioStandIn, receiver: Receiver, digits: int, more: str = "") -> None:
    await create(twilio, number(digits), StatusCallback=receiver.url(more=more))
    await twilio.at_rest()


async def test_every_change_after_the_first_is_told_and_signed(
    twilio: TwilioStandIn, receiver: Receiver
) -> None:
    await play(twilio, receiver, 1, more="?x=%20y")
    assert receiver.statuses == ["sent", "delivered"]
    assert all(map(genuine, receiver.heard))
    assert {heard.url.partition("/callbacks")[2] for heard in receiver.heard} == {
        "/sms/TOKEN?x=%20y"
    }
    assert [(entry.status, entry.token, entry.answer, entry.tries) for entry in called(twilio)] == [
        ("sent", "TOKEN", 204, 1),
        ("delivered", "TOKEN", 204, 1),
    ]


async def test_a_messaging_service_also_tells_that_it_has_queued(
    twilio: TwilioStandIn, receiver: Receiver
) -> None:
    service = f"MG{1:032x}"
    await create(
        twilio, number(1), From="", MessagingServiceSid=service, StatusCallback=receiver.url()
    )
    await twilio.at_rest()
    assert receiver.statuses == ["queued", "sent", "delivered"]
    assert {heard.form["MessagingServiceSid"] for heard in receiver.heard} == {service}
    assert all(heard.form["From"] for heard in receiver.heard)


@pytest.mark.parametrize(
    ("digits", "told"),
    [
        (60, ["sent", "undelivered"]),
        (66, ["failed"]),
        (69, ["sent"]),
        (81, ["delivered", "sent"]),
        (83, []),
        (87, ["sent", "delivered", "undelivered"]),
        (88, ["sent", "undelivered", "delivered"]),
        (89, ["sent", "teleported", "delivered"]),
        (76, ["sent", "delivered"]),
    ],
)
async def test_what_is_told_and_in_which_order_is_chosen_by_number(
    twilio: TwilioStandIn, receiver: Receiver, digits: int, told: list[str]
) -> None:
    await play(twilio, receiver, digits)
    assert receiver.statuses == told
    assert all(map(genuine, receiver.heard))


async def test_duplicates_are_the_same_but_for_their_number(
    twilio: TwilioStandIn, receiver: Receiver
) -> None:
    await play(twilio, receiver, 80)
    assert receiver.statuses == ["sent", "sent", "delivered", "delivered"]
    assert receiver.heard[0].form == receiver.heard[1].form


async def test_early_callbacks_come_before_the_answer(
    twilio: TwilioStandIn, receiver: Receiver
) -> None:
    asked = asyncio.create_task(create(twilio, number(91), StatusCallback=receiver.url("EARLY")))
    assert (await asked).status is None
    assert receiver.statuses == ["sent", "delivered"]


async def test_late_callbacks_come_after_the_status_can_be_looked_up(
    twilio: TwilioStandIn, receiver: Receiver
) -> None:
    twilio.play_for(number(1), "callbacks-late-0.2")
    await create(twilio, number(1), StatusCallback=receiver.url())
    [message] = twilio.messages()
    deadline = time.monotonic() + DEADLINE_S
    while message.status != "delivered":
        assert time.monotonic() < deadline
        await asyncio.sleep(0)
    assert receiver.heard == []
    await twilio.at_rest()
    assert receiver.statuses == ["sent", "delivered"]


async def test_a_forged_callback_does_not_verify(twilio: TwilioStandIn, receiver: Receiver) -> None:
    await play(twilio, receiver, 85)
    assert [genuine(heard) for heard in receiver.heard] == [False, False]
    assert [entry.forged for entry in called(twilio)] == [True, True]


async def test_a_lie_comes_before_each_true_callback(
    twilio: TwilioStandIn, receiver: Receiver
) -> None:
    await play(twilio, receiver, 86)
    assert [(heard.status, genuine(heard)) for heard in receiver.heard] == [
        ("failed", False),
        ("sent", True),
        ("failed", False),
        ("delivered", True),
    ]


@pytest.mark.parametrize(
    ("fragment", "tries", "answer"),
    [("", 1, 503), ("#rc=3&rp=all", 3, 204), ("#rc=1&rp=5xx", 2, 503)],
)
async def test_an_answer_of_5xx_is_final_unless_the_url_asks_for_more(
    twilio: TwilioStandIn, receiver: Receiver, fragment: str, tries: int, answer: int
) -> None:
    receiver.answers = lambda count: 503 if count < 3 else 204
    await play(twilio, receiver, 66, more=fragment)
    [entry] = called(twilio)
    assert (entry.tries, entry.answer) == (tries, answer)
    assert len(receiver.heard) == tries
    assert len({heard.headers["I-Twilio-Idempotency-Token"] for heard in receiver.heard}) == 1
    assert all(map(genuine, receiver.heard))


async def test_a_caller_who_is_away_is_called_once_more(twilio: TwilioStandIn) -> None:
    async with Receiver() as gone:
        url = gone.url()
    await create(twilio, number(66), StatusCallback=url)
    await twilio.at_rest()
    [entry] = called(twilio)
    assert (entry.tries, entry.answer) == (2, None)


async def test_a_caller_who_never_answers_is_given_up(
    twilio: TwilioStandIn, receiver: Receiver
) -> None:
    release = asyncio.Event()

    async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.close()

    twilio.callback_timeout_s = 0.1
    silent = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    await create(twilio, number(66), StatusCallback=f"http://127.0.0.1:{port}/callbacks/sms/T")
    await twilio.at_rest()
    release.set()
    silent.close()
    [entry] = called(twilio)
    assert (entry.tries, entry.answer, receiver.heard) == (1, None, [])


async def test_callbacks_go_on_while_the_api_is_away(
    twilio: TwilioStandIn, receiver: Receiver
) -> None:
    twilio.step_s = 0.05
    await create(twilio, number(1), StatusCallback=receiver.url())
    await twilio.close()
    await twilio.at_rest()
    assert receiver.statuses == ["sent", "delivered"]


async def test_the_observer_stands_before_and_behind_every_callback(
    tmp_path: Path, receiver: Receiver
) -> None:
    told: list[tuple[Phase, str | None, int | None, int]] = []

    def observe(phase: Phase, _count: int, where: Where) -> None:
        if phase in {Phase.CALLBACK, Phase.ACKNOWLEDGED}:
            told.append((phase, where.status, where.answer, len(receiver.heard)))
            assert (where.to, where.token) == (number(66), "TOKEN")

    stand_in = TwilioStandIn(journal=tmp_path / "journal", step_s=0, observer=observe)
    async with stand_in as twilio:
        await play(twilio, receiver, 66)
    assert told == [
        (Phase.CALLBACK, "failed", None, 0),
        (Phase.ACKNOWLEDGED, "failed", 204, 1),
    ]
