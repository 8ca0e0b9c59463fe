"""Headers that receivers ask for: how to leave, what complaints are counted under, and no answer wanted."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from pydantic import ValidationError

from sendledger.content import load_content
from sendledger.plugin import Addressee, Content, ContentFault
from sendledger_smtp import SmtpChannel, SmtpSettings

TOKEN = "abcdefghijklmnopqrstuvwxyz234567abcdefghijkl"
LIST = {"unsubscribe_url": "https://send.school.test/unsubscribe/"}


def channel(name: str = "email", **changes: Any) -> SmtpChannel:
    given = {"host": "127.0.0.1", "port": "25", "tls": "none", "sender": "reports@school.test"}
    settings = SmtpSettings.model_validate({**given, **changes})
    return SmtpChannel(settings, clock=lambda: datetime(2026, 3, 2, tzinfo=UTC), name=name)


def written(through: SmtpChannel, **settings: str) -> EmailMessage:
    parts = load_content({"subject": "s", "text": "t"}, through.capabilities.parts).parts
    content = Content(revision="ab" * 32, parts=parts, settings=settings)
    addressee = Addressee(
        intent_key="1f" * 16,
        attempt_number=1,
        token=TOKEN,
        destination="pat@home.test",
        variables={},
    )
    raw = through.sendledger_prepare(content).write(addressee)
    assert max(map(len, raw.split(b"\r\n"))) <= 998
    message = message_from_bytes(raw, policy=policy.default)
    assert isinstance(message, EmailMessage)
    assert len(message.keys()) == len(set(message.keys()))
    return message


def test_whoever_may_leave_is_told_how_and_that_one_post_is_enough() -> None:
    message = written(channel(**LIST), unsubscribe="yes")
    assert message["List-Unsubscribe"] == f"<https://send.school.test/unsubscribe/{TOKEN}>"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"


def test_an_address_may_stand_beside_the_url() -> None:
    message = written(
        channel(**LIST, unsubscribe_mailto="leave+all@school.test"), unsubscribe="yes"
    )
    assert message["List-Unsubscribe"] == (
        f"<https://send.school.test/unsubscribe/{TOKEN}>, <mailto:leave+all@school.test?subject={TOKEN}>"
    )


def test_the_longest_url_there_may_be_fits_its_line() -> None:
    url = "https://send.school.test/".ljust(500, "u")
    assert written(channel(unsubscribe_url=url), unsubscribe="yes")["List-Unsubscribe"]


@pytest.mark.parametrize("settings", [{}, {"unsubscribe": "no"}])
def test_nobody_is_offered_a_way_out_of_what_has_none(settings: dict[str, str]) -> None:
    message = written(channel(**LIST), **settings)
    assert message["List-Unsubscribe"] is None
    assert message["List-Unsubscribe-Post"] is None


def test_a_channel_says_whether_it_can_offer_a_way_out() -> None:
    assert channel(**LIST).capabilities.unsubscribe
    assert not channel().capabilities.unsubscribe


def test_complaints_are_counted_by_campaign_channel_and_sender() -> None:
    counted = channel("post", feedback_id="schoolmail")
    assert written(counted)["Feedback-ID"] == "post:schoolmail"
    assert written(counted, campaign="spring-2026")["Feedback-ID"] == "spring-2026:post:schoolmail"
    assert written(channel())["Feedback-ID"] is None


def test_every_message_says_that_a_program_made_it() -> None:
    assert written(channel())["Auto-Submitted"] == "auto-generated"


@pytest.mark.parametrize(
    ("changes", "settings", "told"),
    [
        ({}, {"unsubscribe": "yes"}, "needs unsubscribe_url"),
        (LIST, {"unsubscribe": "maybe"}, "expected yes or no"),
        ({}, {"campaign": "spring"}, "needs feedback_id"),
        ({"feedback_id": "schoolmail"}, {"campaign": "a:b"}, "campaign: expected up to 64"),
        ({"feedback_id": "schoolmail"}, {"campaign": "a\r\nBcc: x"}, "campaign: expected up to 64"),
    ],
)
def test_content_that_asks_for_what_the_channel_cannot_do_is_refused(
    changes: dict[str, str], settings: dict[str, str], told: str
) -> None:
    with pytest.raises(ContentFault, match=told):
        written(channel(**changes), **settings)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"unsubscribe_url": "http://send.school.test/u"}, r"expected https:// \(RFC 8058\)"),
        ({"unsubscribe_url": "https://send.school.test/u?x=1"}, "a URL without a query"),
        ({"unsubscribe_url": "https://send.school.test/>,<x"}, "a URL without a query"),
        ({"unsubscribe_url": "https://a\r\nBcc: x"}, "a URL without a query"),
        ({"unsubscribe_url": "https://who@send.school.test/u"}, "without a user"),
        ({"unsubscribe_url": "https:///u"}, "with a host name"),
        ({"unsubscribe_url": "https://send.school.test/".ljust(501, "u")}, "at most 500"),
        ({**LIST, "unsubscribe_mailto": "Leave <a@b.test>"}, "expected a plain ASCII address"),
        ({**LIST, "unsubscribe_mailto": "josé@b.test"}, "expected a plain ASCII address"),
        ({"unsubscribe_mailto": "leave@b.test"}, "goes with unsubscribe_url"),
        ({"feedback_id": "abc"}, "5 to 15"),
        ({"feedback_id": "a:b:c"}, "5 to 15"),
    ],
)
def test_settings_that_receivers_would_not_take_are_refused(
    changes: dict[str, str], told: str
) -> None:
    with pytest.raises(ValidationError, match=told):
        channel(**changes)


def test_this_very_machine_may_be_asked_in_clear() -> None:
    local = channel(unsubscribe_url="http://127.0.0.1:8025/unsubscribe")
    assert f"<http://127.0.0.1:8025/unsubscribe/{TOKEN}>" in str(
        written(local, unsubscribe="yes")["List-Unsubscribe"]
    )
