"""Replies to a group: each is paired with its command, and a combination that cannot be is believed in nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendledger_smtp.pipelining import Group, Pipelining
from sendledger_smtp.reply import Reply
from sendledger_smtp.wire import WireBroken

OFFERED = {"pipelining": ""}


def reply(code: int) -> Reply:
    return Reply(code=code, literal=b"%d\r\n" % code, lines=(b"",))


def paired(*codes: int) -> Group:
    group = Group()
    for code in codes:
        assert group.awaits is not None
        group.take(reply(code))
    return group


def test_a_group_that_is_taken_awaits_one_reply_after_the_other() -> None:
    group = Group()
    met = []
    for code in (250, 251, 354):
        met.append((group.awaits, group.stage))
        group.take(reply(code))
    assert met == [("mail", "mail"), ("rcpt", "rcpt"), ("data", "data")]
    assert (group.whole, group.wants_message, group.refusal) == (True, True, None)
    assert (group.awaits, group.stage) == (None, "data")


@pytest.mark.parametrize(
    ("codes", "stage", "refusal"),
    [
        ((550, 503, 503), "mail", 550),
        ((250, 550, 554), "rcpt", 550),
        ((250, 450, 503), "rcpt", 450),
        ((250, 250, 451), "data", 451),
        ((550, 503, 354), "mail", 550),
        ((250, 550, 354), "rcpt", 550),
    ],
)
def test_the_first_refusal_is_the_evidence_and_names_its_stage(
    codes: tuple[int, ...], stage: str, refusal: int
) -> None:
    group = paired(*codes)
    assert (group.stage, group.refusal) == (stage, reply(refusal))
    assert group.wants_message == (codes[2] == 354)


@pytest.mark.parametrize(
    ("codes", "stage"), [((421,), "mail"), ((250, 421), "rcpt"), ((550, 421), "mail")]
)
def test_behind_a_goodbye_no_reply_is_awaited(codes: tuple[int, ...], stage: str) -> None:
    group = paired(*codes)
    assert (group.closing, group.awaits, group.stage) == (True, None, stage)


@pytest.mark.parametrize(
    "codes", [(354,), (250, 354), (250, 250, 250), (550, 250), (550, 354), (250, 550, 250)]
)
def test_replies_that_cannot_all_be_answers_are_believed_in_nothing(codes: tuple[int, ...]) -> None:
    *before, last = codes
    group = paired(*before)
    with pytest.raises(WireBroken, match="protocol"):
        group.take(reply(last))
    assert group.literal == b"".join(b"%d\r\n" % code for code in codes)


@given(st.lists(st.integers(200, 599), min_size=3, max_size=3))
def test_only_a_taken_sender_and_a_taken_recipient_let_a_message_go(codes: list[int]) -> None:
    group = Group()
    try:
        for code in codes:
            if group.awaits is not None:
                group.take(reply(code))
    except WireBroken:
        return
    digits = [code // 100 for code in codes]
    goes = group.whole and group.refusal is None
    assert goes == (digits == [2, 2, 3])
    if not goes:
        assert group.refusal == reply(next(code for code in codes if code >= 400))


def test_a_relay_is_spoken_to_in_groups_where_it_offers_that_and_we_may() -> None:
    async def serves(*, allowed: bool, extensions: dict[str, str]) -> bool:
        return Pipelining(allowed=allowed).serves(extensions)

    assert asyncio.run(serves(allowed=True, extensions=OFFERED))
    assert not asyncio.run(serves(allowed=True, extensions={"size": ""}))
    assert not asyncio.run(serves(allowed=False, extensions=OFFERED))


async def test_a_relay_that_lost_count_is_asked_step_by_step_for_a_while() -> None:
    pipelining = Pipelining(allowed=True)
    pipelining.answered()
    pipelining.lost_count()
    assert not pipelining.serves(OFFERED)
    brief = Pipelining(allowed=True, distrust=timedelta(0))
    brief.lost_count()
    assert brief.serves(OFFERED)


async def test_a_break_in_a_group_makes_doubtful_only_who_never_answered_one() -> None:
    new, known = Pipelining(allowed=True), Pipelining(allowed=True)
    known.answered()
    new.broken()
    known.broken()
    assert (new.serves(OFFERED), known.serves(OFFERED)) == (False, True)
