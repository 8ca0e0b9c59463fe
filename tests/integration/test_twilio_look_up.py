"""Look-ups: what Twilio knows of an attempt, by SID or among the messages to a number; never guessed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from http_peer import Asked as Request
from http_peer import HttpPeer, response
from sendledger.plugin import Asked, Envelope, Found, Outcome
from sendledger_sandbox.twilio import TwilioStandIn
from sendledger_twilio import look_up
from sms_kit import (
    BODY,
    NOW,
    PLEASANT,
    SENDER,
    SERVICE,
    SID,
    channel_for,
    envelope,
    hand_over,
    judge_later,
)

MINUTE = timedelta(minutes=1)


def asked(one: Envelope | None = None, sid: str | None = None, at: datetime = NOW) -> Asked:
    return Asked(
        envelope=one or envelope(),
        provider_reference=sid,
        opened_at=at,
        result_due_at=at + 2 * MINUTE,
    )


def message(
    number: int = 1, *, sender: str = SENDER, created_at: datetime = NOW, **changes: Any
) -> dict[str, Any]:
    """Return a message as a list shows it."""
    shown = {
        "sid": f"SM{number:032x}",
        "to": PLEASANT,
        "from": sender,
        "body": BODY,
        "status": "sent",
        "error_code": None,
        "messaging_service_sid": None,
        "date_created": format_datetime(created_at),
        "date_updated": format_datetime(created_at),
    }
    return shown | changes


class Shelf:
    """Answers look-ups from *messages*, a page at a time."""

    def __init__(self, *messages: dict[str, Any], page_size: int = 100) -> None:
        self.messages, self.page_size = messages, page_size

    def respond(self, request: Request) -> bytes:
        path, _, query = request.target.partition("?")
        if not path.endswith("/Messages.json"):
            sid = path.rpartition("/")[2].removesuffix(".json")
            return _found(next((each for each in self.messages if each["sid"] == sid), None))
        first = int(query.partition("Page=")[2] or 0) * self.page_size
        shown = self.messages[first : first + self.page_size]
        number = first // self.page_size + 1
        more = first + self.page_size < len(self.messages)
        following = f"{path}?Page={number}" if more else None
        return _found({"messages": list(shown), "next_page_uri": following})


def _found(shown: dict[str, Any] | None) -> bytes:
    if shown is None:
        return response(404, b'{"code": 20404}')
    return response(200, json.dumps(shown).encode())


async def looked_up(shelf: Shelf, one: Asked | None = None, **changes: Any) -> Found:
    async with HttpPeer(shelf.respond) as peer:
        channel = channel_for(peer.url, **changes)
        [found] = await channel.sendledger_look_up([one or asked()])
        await channel.aclose()
    return found


def sids(found: Found) -> list[str | None]:
    return [receipt.evidence.provider_reference for receipt in found.receipts]


async def test_a_message_is_read_by_its_sid() -> None:
    shown = message(sid=SID, status="undelivered", error_code=30003)
    found = await looked_up(Shelf(shown), asked(sid=SID))
    [receipt] = found.receipts
    assert receipt.identity == f"{SID}/undelivered/30003"
    assert receipt.occurred_at == NOW
    assert receipt.evidence.literal == json.dumps(shown).encode()
    assert receipt.evidence.stage == "look-up"
    assert judge_later(receipt.evidence).rule == "twilio.handset-unreachable"


async def test_a_message_that_is_not_there_is_none() -> None:
    assert await looked_up(Shelf(), asked(sid=SID)) == Found()


async def test_one_message_of_the_same_text_and_time_is_found() -> None:
    found = await looked_up(Shelf(message(1), message(2, body="another text")))
    assert sids(found) == [f"SM{1:032x}"]


async def test_two_that_cannot_be_told_apart_are_both_given() -> None:
    assert len((await looked_up(Shelf(message(1), message(2)))).receipts) == 2


@pytest.mark.parametrize(
    "other",
    [
        message(body=BODY + "!"),
        message(to="+12025550144"),
        message(sender="+15005550007"),
        message(created_at=NOW - 3 * MINUTE),
        message(created_at=NOW + 5 * MINUTE),
    ],
    ids=["text", "destination", "sender", "before", "after"],
)
async def test_what_differs_is_another_message(other: dict[str, Any]) -> None:
    assert await looked_up(Shelf(other)) == Found()


@pytest.mark.parametrize("created_at", [NOW - MINUTE, NOW, NOW + 3 * MINUTE])
async def test_clocks_may_differ_by_minutes(created_at: datetime) -> None:
    assert len((await looked_up(Shelf(message(created_at=created_at)))).receipts) == 1


async def test_typography_that_was_written_plainly_is_the_same_text() -> None:
    typographic = envelope(message="Sam\N{RIGHT SINGLE QUOTATION MARK}s report ".encode())
    found = await looked_up(Shelf(message(body="Sam's report")), asked(typographic))
    assert len(found.receipts) == 1


async def test_of_a_messaging_service_the_service_counts_and_any_number_of_it() -> None:
    one = message(sender="+15005550009", messaging_service_sid=SERVICE)
    other = message(2, messaging_service_sid="MG" + "9" * 32)
    found = await looked_up(Shelf(one, other), senders=None, messaging_service_sid=SERVICE)
    assert sids(found) == [one["sid"]]


async def test_it_is_looked_for_on_every_page_until_they_are_too_old() -> None:
    newer = [message(n, created_at=NOW + timedelta(hours=1)) for n in range(1, 8)]
    older = [message(n, created_at=NOW - timedelta(days=1)) for n in range(20, 60)]
    shelf = Shelf(*newer, message(8), *older, page_size=3)
    async with HttpPeer(shelf.respond) as peer:
        channel = channel_for(peer.url)
        [found] = await channel.sendledger_look_up([asked()])
        await channel.aclose()
    assert sids(found) == [f"SM{8:032x}"]
    assert len([each for each in peer.asked if "Messages.json" in each.target]) == 3


async def test_a_message_that_moved_to_the_next_page_meanwhile_is_still_one() -> None:
    shelf = Shelf(message(1), message(1), message(2, body="another text"), page_size=1)
    assert sids(await looked_up(shelf)) == [f"SM{1:032x}"]


async def test_a_list_without_end_is_no_answer() -> None:
    newer = [message(n, created_at=NOW + timedelta(hours=1)) for n in range(1, 30)]
    assert (await looked_up(Shelf(*newer, page_size=2))).failed == "unreadable"


@pytest.mark.parametrize(
    ("octets", "word"),
    [
        (response(503, b""), "http-503"),
        (response(401, b'{"code": 20003}'), "http-401"),
        (response(429, b""), "http-429"),
        (response(200, b"<html>"), "unreadable"),
        (response(200, b'{"messages": 1}'), "unreadable"),
        (response(200, b'{"messages": [1]}'), "unreadable"),
        (response(200, b'{"messages": [{"sid": "x"}]}'), "unreadable"),
        (
            response(200, b'{"messages": [], "next_page_uri": "//elsewhere.example/x"}'),
            "unreadable",
        ),
        (None, "closed"),
    ],
    ids=range(9),
)
async def test_a_look_up_that_could_not_be_made_says_nothing(
    octets: bytes | None, word: str
) -> None:
    async with HttpPeer(lambda _: octets) as peer:
        channel = channel_for(peer.url)
        [found] = await channel.sendledger_look_up([asked()])
        await channel.aclose()
    assert (found.failed, found.receipts) == (word, ())


async def test_an_api_that_is_away_says_nothing() -> None:
    async with HttpPeer(lambda _: None) as peer:
        url = peer.url
    channel = channel_for(url)
    [found] = await channel.sendledger_look_up([asked(sid=SID)])
    await channel.aclose()
    assert found.failed == "refused"


async def test_answers_come_in_the_order_of_the_questions_a_few_at_a_time() -> None:
    numbers = list(range(1, 21))
    shelf = Shelf(*(message(n) for n in numbers))
    async with HttpPeer(shelf.respond) as peer:
        channel = channel_for(peer.url, look_ups_max="2")
        found = await channel.sendledger_look_up([asked(sid=f"SM{n:032x}") for n in numbers])
        await channel.aclose()
    assert [sids(each) for each in found] == [[f"SM{n:032x}"] for n in numbers]
    assert peer.met == 2


async def test_one_that_hangs_takes_no_other_answer_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_up, "WITHIN_S", 0.5)
    numbers = list(range(1, 9))
    shelf = Shelf(*(message(n) for n in numbers))

    def respond(request: Request) -> bytes | Awaitable[bytes]:
        hangs = request.target.endswith(f"{1:032x}.json")
        return asyncio.get_running_loop().create_future() if hangs else shelf.respond(request)

    async with HttpPeer(respond) as peer:
        channel = channel_for(peer.url, look_ups_max="2")
        found = await channel.sendledger_look_up([asked(sid=f"SM{n:032x}") for n in numbers])
        await channel.aclose()
    assert [each.failed for each in found] == ["timeout"] + [None] * 7
    assert [sids(each) for each in found[1:]] == [[f"SM{n:032x}"] for n in numbers[1:]]


# --- with the stand-in -------------------------------------------------------------------------------


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


@pytest.mark.parametrize(
    ("digits", "found_count"),
    [("90", 1), ("92", 2), ("93", 2), ("94", 1), ("97", 1)],
)
async def test_what_was_taken_without_an_answer_is_found(
    tmp_path: Path, now: datetime, digits: str, found_count: int
) -> None:
    """Numbers of the stand-in: the answer is lost, or two messages are made of one request."""
    one = envelope(f"+120255501{digits}")
    async with TwilioStandIn(journal=tmp_path / "accepted.jsonl", fsync=False) as twilio:
        timeouts = {"connect": "10s", "answer": "500ms"}
        channel = channel_for(twilio.url, account_sid=twilio.account_sid, timeouts=timeouts)
        evidence = await hand_over(channel, one)
        [found] = await channel.sendledger_look_up([asked(one, at=now)])
        await channel.aclose()
    assert evidence.answered == (digits == "92")
    assert len(found.receipts) == found_count
    for receipt in found.receipts:
        assert judge_later(receipt.evidence).outcome is not Outcome.AMBIGUOUS


async def test_what_was_never_taken_is_not_found(tmp_path: Path, now: datetime) -> None:
    one = envelope("+12025550198")
    async with TwilioStandIn(journal=tmp_path / "accepted.jsonl", fsync=False) as twilio:
        channel = channel_for(twilio.url, account_sid=twilio.account_sid)
        evidence = await hand_over(channel, one)
        [found] = await channel.sendledger_look_up([asked(one, at=now)])
        await channel.aclose()
    assert (evidence.handed_over, evidence.answered) == (True, False)
    assert found == Found()
