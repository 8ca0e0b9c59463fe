"""What numbers and scripts make the Twilio stand-in do to a request, and what its journal says of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sendledger_sandbox import JournalFault, ScriptFault
from sendledger_sandbox.twilio import Phase, TwilioStandIn, Where, read_journal
from stand_in_kit import DEADLINE_S, PLEASANT, ask, create, number


@pytest.fixture
async def twilio(tmp_path: Path) -> AsyncIterator[TwilioStandIn]:
    async with TwilioStandIn(journal=tmp_path / "journal", step_s=0) as stand_in:
        yield stand_in


def journalled(twilio: TwilioStandIn) -> list[str]:
    return [entry.to for entry in read_journal(twilio.journal).accepted]


@pytest.mark.parametrize(
    ("digits", "status", "code"),
    [
        (50, 400, 21211),
        (52, 400, 21610),
        (58, 401, 20003),
        (59, 400, 99999),
        (70, 429, 20429),
        (72, 500, 20500),
        (73, 503, 20503),
    ],
)
async def test_a_refusal_accepts_nothing(
    twilio: TwilioStandIn, digits: int, status: int, code: int
) -> None:
    answer = await create(twilio, number(digits))
    assert (answer.status, json.loads(answer.body)["code"]) == (status, code)
    assert journalled(twilio) == []


async def test_a_rate_limit_says_when_to_come_back(twilio: TwilioStandIn) -> None:
    twilio.play("rate-limit-7-once")
    first, second = await create(twilio), await create(twilio)
    assert (first.status, first.headers["Retry-After"]) == (429, "7")
    assert second.status == 201


@pytest.mark.parametrize("digits", [58, 70, 72, 73, 75])
async def test_an_outcome_with_once_plays_for_the_first_request_of_a_number_only(
    twilio: TwilioStandIn, digits: int
) -> None:
    assert (await create(twilio, number(digits))).status != 201
    assert (await create(twilio, number(digits))).status == 201
    assert (await create(twilio, number(digits, area=907))).status != 201
    assert journalled(twilio) == [number(digits)]


async def test_a_connection_cut_before_acceptance_accepts_nothing(twilio: TwilioStandIn) -> None:
    assert (await create(twilio, number(98))).status is None
    assert journalled(twilio) == []


async def test_a_lost_answer_is_accepted_and_found_by_a_look_up(twilio: TwilioStandIn) -> None:
    assert (await create(twilio, number(76))).status is None
    assert journalled(twilio) == [number(76)]
    found = json.loads((await ask(twilio, "GET", "Messages.json")).body)["messages"]
    assert [one["to"] for one in found] == [number(76)]


async def test_an_error_after_acceptance_takes_nothing_back(twilio: TwilioStandIn) -> None:
    answer = await create(twilio, number(74))
    assert (answer.status, json.loads(answer.body)["code"]) == (500, 20500)
    assert journalled(twilio) == [number(74)]


async def test_an_answer_that_breaks_off_cannot_be_read(twilio: TwilioStandIn) -> None:
    answer = await create(twilio, number(77))
    assert answer.status == 201
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(answer.body)
    assert journalled(twilio) == [number(77)]


async def test_silence_lasts_until_the_peer_gives_up_and_the_message_is_accepted(
    twilio: TwilioStandIn,
) -> None:
    assert (await create(twilio, number(78), wait_s=0.2)).status is None
    assert journalled(twilio) == [number(78)]
    await twilio.at_rest()
    assert [message.status for message in twilio.messages()] == ["delivered"]


async def test_a_look_up_can_fail_too(twilio: TwilioStandIn) -> None:
    await create(twilio, number(99))
    [message] = twilio.messages()
    for path in (f"Messages/{message.sid}.json", f"Messages.json?To=%2B{number(99)[1:]}"):
        twilio.play_for(number(99), "http-503-look-up-once+stall-look-up-0")
        twilio.play()
        assert [(await ask(twilio, "GET", path)).status for _ in range(2)] == [503, 200]


async def test_one_request_can_become_two_messages(twilio: TwilioStandIn) -> None:
    answered = json.loads((await create(twilio, number(92))).body)["sid"]
    first, second = twilio.messages()
    assert (first.sid != second.sid, second.sid) == (True, answered)
    assert journalled(twilio) == [number(92)] * 2


@pytest.mark.parametrize(
    ("digits", "status", "code"),
    [
        (1, "delivered", None),
        (60, "undelivered", 30003),
        (66, "failed", 30001),
        (69, "sent", None),
        (87, "undelivered", 30008),
        (88, "delivered", None),
    ],
)
async def test_a_message_ends_where_its_number_says(
    twilio: TwilioStandIn, digits: int, status: str, code: int | None
) -> None:
    await create(twilio, number(digits))
    await twilio.at_rest()
    [message] = twilio.messages()
    assert (message.status, message.error_code) == (status, code)


async def test_the_script_of_the_server_plays_for_everybody_until_it_is_replaced(
    twilio: TwilioStandIn,
) -> None:
    twilio.play("http-500-once", "end-sent")
    assert [(await create(twilio)).status for _ in range(2)] == [500, 201]
    twilio.play("refuse-21211")
    assert (await create(twilio)).status == 400
    with pytest.raises(ScriptFault):
        twilio.play("refuse-21211", "explode")
    assert (await create(twilio)).status == 400
    twilio.play()
    assert (await create(twilio)).status == 201


async def test_a_number_can_be_given_other_outcomes(tmp_path: Path) -> None:
    numbers = {PLEASANT: "refuse-21614", number(50): ""}
    async with TwilioStandIn(journal=tmp_path / "journal", numbers=numbers) as twilio:
        assert (await create(twilio)).status == 400
        assert (await create(twilio, number(50))).status == 201


async def test_connections_can_be_dropped_before_anything_is_read(twilio: TwilioStandIn) -> None:
    twilio.play("drop-connect-once")
    assert [(await create(twilio)).status for _ in range(2)] == [None, 201]
    assert twilio.connections.total == 2


async def test_a_request_that_breaks_off_or_is_no_http_is_no_fault_of_the_stand_in(
    twilio: TwilioStandIn,
) -> None:
    for broken in (
        b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nTo=",
        b"hello\r\n\r\n",
        b"",
    ):
        _, writer = await asyncio.open_connection(twilio.host, twilio.port)
        writer.write(broken)
        writer.close()
        await writer.wait_closed()
    assert (await create(twilio)).status == 201
    await twilio.close()
    assert (twilio.connections.total, twilio.connections.open) == (4, 0)


async def test_more_requests_at_a_time_than_are_allowed_are_told_429(
    twilio: TwilioStandIn,
) -> None:
    twilio.concurrency_max = 1
    twilio.play("stall-request-0.3-once")
    answers = await asyncio.gather(create(twilio), create(twilio))
    assert sorted(answer.status or 0 for answer in answers) == [201, 429]
    assert (await create(twilio)).status == 201


async def test_the_observer_is_told_of_every_boundary_before_the_answer(
    tmp_path: Path,
) -> None:
    told: list[tuple[Phase, str | None]] = []

    async def observe(phase: Phase, count: int, where: Where) -> None:
        await asyncio.sleep(0)
        assert count == Counter(phase for phase, _ in told)[phase] + 1
        told.append((phase, where.to))

    stand_in = TwilioStandIn(journal=tmp_path / "journal", step_s=0, observer=observe)
    async with stand_in as twilio:
        sid = json.loads((await create(twilio)).body)["sid"]
        await ask(twilio, "GET", f"Messages/{sid}.json")
        await ask(twilio, "GET", "Messages.json")
    assert told == [
        (Phase.CONNECT, None),
        (Phase.REQUEST, PLEASANT),
        (Phase.ACCEPTED, PLEASANT),
        (Phase.ANSWERED, PLEASANT),
        (Phase.CONNECT, None),
        (Phase.LOOK_UP, PLEASANT),
        (Phase.CONNECT, None),
        (Phase.LOOK_UP, None),
    ]


async def test_an_observer_that_holds_an_answer_holds_no_other(tmp_path: Path) -> None:
    held, release = asyncio.Event(), asyncio.Event()

    async def observe(phase: Phase, _count: int, where: Where) -> None:
        if phase is Phase.ACCEPTED and where.to == PLEASANT:
            held.set()
            await release.wait()

    async with TwilioStandIn(journal=tmp_path / "journal", observer=observe) as twilio:
        first = asyncio.create_task(create(twilio))
        await asyncio.wait_for(held.wait(), DEADLINE_S)
        assert (await create(twilio, number(2))).status == 201
        assert not first.done()
        release.set()
        assert (await first).status == 201


async def test_what_an_observer_raises_is_raised_by_the_stand_in(tmp_path: Path) -> None:
    def observe(phase: Phase, _count: int, _where: Where) -> None:
        assert phase is not Phase.REQUEST, "a failed check"

    with pytest.raises(AssertionError, match="a failed check"):
        async with TwilioStandIn(journal=tmp_path / "journal", observer=observe) as twilio:
            assert (await create(twilio)).status is None


async def test_a_peer_that_hangs_up_early_leaves_journal_and_account_in_agreement(
    twilio: TwilioStandIn,
) -> None:
    await asyncio.gather(*(create(twilio, wait_s=0.001 * n) for n in range(1, 30)))
    await twilio.close()
    await twilio.at_rest()
    assert {entry.sid for entry in read_journal(twilio.journal).accepted} == {
        message.sid for message in twilio.messages()
    }


@pytest.mark.parametrize("line", [b"{}", b"[]", b"7", b'{"kind": "other", "at": "2026-03-02"}'])
def test_a_complete_line_that_is_no_entry_is_named(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "journal").write_bytes(line + b"\n")
    with pytest.raises(JournalFault, match=r"journal \(line 1\)"):
        read_journal(tmp_path / "journal")
