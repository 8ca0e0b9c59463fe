"""A wait that a refusal states in so many words is read; what merely looks like one is not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sendledger.plugin import Evidence
from sendledger_smtp.routes import waiting
from sendledger_smtp.waiting import LONGEST, stated_wait

STATED = [
    ("450 4.2.0 Recipient address rejected: Greylisted for 300 seconds", 300),
    ("450 Greylisted for 5 minutes", 300),
    ("451 4.7.1 Greylisting in action, please come back in 00:05:00", 300),
    ("451 4.7.1 Please try again in 300 seconds", 300),
    ("450 4.7.1 retry after 15 minutes", 900),
    ("421 4.7.0 Too many connections, try again later in 2 min", 120),
    ("451 Try again in 90s.", 90),
    ("421 please wait 60 sec before you come back", 60),
    ("421 Retry-After: 120", 120),
    ("450 retry after 90", 90),
    ("450 try again after 1h", 3600),
    ("451 deferred for 1 hour and 30 minutes", 5400),
    ("451 Sorry, try again in 5 min, 20 sec", 320),
    ("450 Please try again in an hour", 3600),
    ("550 5.7.1 sending quota exceeded, try again in 1 hour", 3600),
    ("450-4.7.1 You are new here, please wait for\r\n450 4.7.1 5 minutes", 300),
]


@pytest.mark.parametrize(("text", "seconds"), STATED, ids=[text for text, _ in STATED])
def test_a_stated_wait_is_read(text: str, seconds: int) -> None:
    assert stated_wait(f"{text}\r\n".encode()) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "450 4.2.0 Greylisted, see http://grey.example/300/seconds",
        "451 4.7.1 Try again later",
        "452 4.5.3 100 messages per 3600 seconds is too many, try again later",
        "421 4.4.2 timeout after waiting, closing",
        "421 retry 3 of 5 seconds",
        "450 try again after 14:30",
        "450 retry after 2026-03-02",
        "450 try again in 0 seconds",
        "450 try again in 5 messages",
        "",
    ],
)
def test_no_other_number_is_taken_for_a_wait(text: str) -> None:
    assert stated_wait(f"{text}\r\n".encode()) is None


@pytest.mark.parametrize("text", ["421 retry after 10 days", "421 Retry-After: 999999"])
def test_a_wait_is_believed_up_to_four_hours(text: str) -> None:
    assert stated_wait(text.encode()) == LONGEST == timedelta(hours=4)


@pytest.mark.parametrize("repeated", [b"again ", b"after 1 s ", b"wait 1 m, 1 m, "])
def test_a_text_is_read_to_a_bound_only(repeated: bytes) -> None:
    assert stated_wait(b"450 " + b"-" * 5000 + b" retry after 5 minutes\r\n") is None
    stated_wait(b"450 " + repeated * 10_000)


@pytest.mark.parametrize("code", [450, 550])
def test_a_refusal_carries_its_wait_as_evidence(code: int) -> None:
    literal = b"%d try again in 300 seconds\r\n" % code
    refused = Evidence(
        stage="rcpt", handed_over=False, answered=True, literal=literal, reply_code=code
    )
    assert waiting(refused).retry_after == timedelta(seconds=300)


def test_an_acceptance_and_a_silence_state_no_wait() -> None:
    literal = b"250 ok, delayed 300 seconds\r\n"
    accepted = Evidence(
        stage="dot", handed_over=True, answered=True, literal=literal, reply_code=250
    )
    broken = Evidence(
        stage="dot", handed_over=True, answered=False, literal=literal, fault="protocol"
    )
    assert waiting(accepted) is accepted
    assert waiting(broken) is broken
