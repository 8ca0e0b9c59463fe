"""Messages of the Twilio stand-in: how they are shown, filtered and paged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlsplit

import pytest
import smsutil

from sendledger_sandbox.twilio import ACCOUNT_SID, SENDER, Message
from sendledger_sandbox.twilio.message import Request, segments_of
from sendledger_sandbox.twilio.messages import Messages, QueryFault, page

MORNING = datetime(2026, 3, 2, 8, tzinfo=UTC)
DAY = timedelta(days=1)


def message(number: int, *, to: str = "+12025550101", sender: str = SENDER) -> Message:
    request = Request(to=to, sender=sender, service_sid=None, body="hello", callback_url=None)
    return Message(
        sid=f"SM{number:032x}",
        account_sid=ACCOUNT_SID,
        request=request,
        created_at=MORNING,
        sender=sender,
        status="queued",
        body=request.body,
    )


def account_of(*messages: Message) -> Messages:
    account = Messages()
    for one in messages:
        account.add(one)
    return account


def numbers_in(account: Messages, **query: str) -> list[int]:
    by_sid = {message(number).sid: number for number in range(1, 5)}
    return [by_sid[one["sid"]] for one in page(account, ACCOUNT_SID, query)["messages"]]


def test_a_list_shows_the_newest_first() -> None:
    assert numbers_in(account_of(*map(message, range(1, 5)))) == [4, 3, 2, 1]


def test_a_list_is_filtered_by_numbers() -> None:
    account = account_of(
        message(1),
        message(2, to="+12025550102"),
        message(3, sender="+12025550142"),
        message(4, to="+12025550102", sender="+12025550142"),
    )
    assert numbers_in(account, To="+12025550102") == [4, 2]
    assert numbers_in(account, From="+12025550142") == [4, 3]
    assert numbers_in(account, To="+12025550102", From=SENDER) == [2]
    assert numbers_in(account, To="+12025550199") == []


@pytest.mark.parametrize(
    ("name", "found"),
    [("DateSent", [2]), ("DateSent<", [2, 1]), ("DateSent>", [3, 2])],
)
@pytest.mark.parametrize("day", ["2026-03-03", "2026-03-03T23:59:00Z", "2026-03-03 00:00:00"])
def test_a_list_is_filtered_by_whole_days_both_included(
    name: str, found: list[int], day: str
) -> None:
    sent = [message(number) for number in (1, 2, 3)]
    for number, one in enumerate(sent):
        one.move("sent", None, MORNING + number * DAY)
    account = account_of(*sent, message(4))
    assert numbers_in(account, **{name: day}) == found


@pytest.mark.parametrize(
    "query",
    [
        {"DateSent": "yesterday"},
        {"PageSize": "0"},
        {"PageSize": "1001"},
        {"PageSize": "ten"},
        {"Page": "-1"},
        {"PageToken": "PASM00"},
    ],
)
def test_a_parameter_that_cannot_be_read_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(QueryFault):
        page(account_of(message(1)), ACCOUNT_SID, query)


def test_following_the_links_shows_every_message_once_whatever_is_accepted_meanwhile() -> None:
    account = account_of(*map(message, range(1, 8)))
    found = page(account, ACCOUNT_SID, {"PageSize": "3", "To": "+12025550101"})
    seen = [one["sid"] for one in found["messages"]]
    pages = 1
    while found["next_page_uri"] is not None:
        account.add(message(100 + pages))
        query = dict(parse_qsl(urlsplit(found["next_page_uri"]).query))
        assert query["To"] == "+12025550101"
        found = page(account, ACCOUNT_SID, query)
        seen += [one["sid"] for one in found["messages"]]
        pages += 1
    assert pages == 3
    assert seen == [message(number).sid for number in range(7, 0, -1)]


def test_the_last_page_that_is_full_has_no_next_one() -> None:
    found = page(account_of(message(1), message(2)), ACCOUNT_SID, {"PageSize": "2"})
    assert len(found["messages"]) == 2
    assert found["next_page_uri"] is None


def test_a_message_that_never_left_has_no_day() -> None:
    failed = message(1)
    failed.move("failed", 30001, MORNING)
    assert (failed.sent_at, failed.over) == (None, True)


def test_the_token_is_the_end_of_the_callbacks_path() -> None:
    for url, token in (
        ("https://reports.example/callbacks/sms/abc?x=1#rc=2", "abc"),
        ("https://reports.example/", None),
        (None, None),
    ):
        request = Request(to="", sender=None, service_sid=None, body="", callback_url=url)
        assert request.token == token


@pytest.mark.parametrize(
    "body",
    [
        "x",
        "x" * 160,
        "x" * 161,
        "x" * 307,
        "é€[",
        "€" * 80,
        "€" * 81,
        "ж" * 70,
        "ж" * 71,
        "😀" * 36,
    ],
)
def test_segments_are_counted_as_an_independent_counter_does(body: str) -> None:
    assert segments_of(body) == len(smsutil.split(body).parts)
