"""Several relays of one channel: another is asked only where nothing can have been taken."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sendledger.ledger.findings import result_of
from sendledger.plugin import Evidence, Outcome, Scope, Secret, SessionRefused
from sendledger_sandbox import CaptureServer
from sendledger_smtp.pool import Pool
from sendledger_smtp.routes import BREAKS_MAX, REST, REST_MAX
from smtp_kit import (
    AT_DATA,
    AT_DOT,
    AT_RCPT,
    BYE,
    GREETED,
    HUSH,
    PROMPT,
    Peer,
    Steps,
    channel_for,
    envelope,
    hand_over,
    hand_over_once,
    judge,
    settings_for,
)
from smtp_peer import ScriptedPeer

LOGIN = {"username": "school", "password": Secret("hunter2")}
QUEUED: dict[str, Any] = {"send": "250 2.0.0 Ok: queued as 4XQ2yz0abc\r\n"}
TAKING: Steps = [*AT_DOT, QUEUED, *BYE]
SERVING: Steps = [*GREETED, *BYE]
AUTH_OFFERED: Steps = [
    {"send": "220 relay.example\r\n"},
    {"expect": "EHLO"},
    {"send": "250-relay.example\r\n250 AUTH PLAIN\r\n"},
]
WRONG_PASSWORD: Steps = [
    *AUTH_OFFERED,
    {"expect": "AUTH"},
    {"send": "535 5.7.8 bad credentials\r\n"},
    HUSH,
]
BUSY: Steps = [{"send": "421 4.3.2 too busy\r\n"}, {"close": True}]


@dataclass
class Nowhere:
    """A port of this machine that nobody listens on."""

    port: int
    host: str = "127.0.0.1"


@pytest.fixture
def nowhere() -> Nowhere:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return Nowhere(taken.getsockname()[1])


def fall_back(*peers: Peer, **changes: Any) -> dict[str, Any]:
    """Return the setting that names *peers* as further relays."""
    relays = [{"host": peer.host, "port": str(peer.port), "tls": "none"} for peer in peers]
    return {"fallbacks": [relay | changes for relay in relays]}


def name(peer: Peer) -> str:
    return f"{peer.host}:{peer.port}"


def said(peer: ScriptedPeer) -> list[bytes]:
    return [octets for connection in peer.log for speaker, octets in connection if speaker == "C"]


# --- before a message is spoken of --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "changes"),
    [
        ([{"close": True}], {}),
        (BUSY, {}),
        ([{"send": "554 5.7.1 no service for you\r\n"}, HUSH], {}),
        ([{"send": "garbage\r\n"}, HUSH], {}),
        ([HUSH], {"timeouts": PROMPT | {"greeting": "200ms"}}),
        ([*GREETED[:2], {"send": "550 who are you\r\n"}, HUSH], {}),
        ([*GREETED[:2], {"close": True}], {}),
        ([*GREETED, HUSH], {"tls": "starttls"}),
        ([*GREETED, HUSH], LOGIN),
        (WRONG_PASSWORD, LOGIN),
    ],
    ids=[
        "closed", "421", "554", "garbage", "silence", "ehlo-550", "ehlo-closed", "no-starttls", "no-auth", "535"
    ],
)  # fmt: skip
async def test_a_relay_that_gives_no_session_is_passed_over_in_the_same_attempt(
    steps: Steps, changes: dict[str, Any]
) -> None:
    async with ScriptedPeer(scripts=[steps]) as first, ScriptedPeer(scripts=[TAKING]) as second:
        evidence = await hand_over_once(first, envelope(), **fall_back(second), **changes)
    assert judge(evidence).outcome is Outcome.ACCEPTED
    assert evidence.facts == {"relay": name(second)}
    assert result_of(1, evidence, judge(evidence)).stage == f"dot/{name(second)}"
    assert (first.connections, second.connections) == (1, 1)
    assert not any(octets.startswith(b"MAIL") for octets in said(first))


async def test_a_relay_that_is_not_there_is_passed_over(nowhere: Nowhere) -> None:
    async with ScriptedPeer(scripts=[TAKING]) as second:
        evidence = await hand_over_once(nowhere, envelope(), **fall_back(second))
    assert judge(evidence).outcome is Outcome.ACCEPTED


async def test_the_preferred_relay_is_used_as_long_as_it_serves(tmp_path: Path) -> None:
    async with (
        CaptureServer(journal=tmp_path / "accepted.jsonl") as first,
        ScriptedPeer(scripts=[]) as second,
    ):
        channel = channel_for(first, messages_per_session_max="2", **fall_back(second))
        for _ in range(5):
            evidence = await hand_over(channel, envelope())
            assert evidence.facts == {"relay": name(first)}
        await channel.aclose()
        assert (first.accepted, second.connections) == (5, 0)


async def test_each_relay_is_shown_its_own_credentials_only() -> None:
    async with (
        ScriptedPeer(scripts=[WRONG_PASSWORD]) as first,
        ScriptedPeer(scripts=[WRONG_PASSWORD]) as second,
    ):
        settings = fall_back(second, username="other", password=Secret("swordfish"))
        channel = channel_for(first, **LOGIN, **settings)
        await hand_over(channel, envelope())
        await channel.aclose()
    [login] = [line for line in said(first) if line.startswith(b"AUTH")]
    [other] = [line for line in said(second) if line.startswith(b"AUTH")]
    assert login == b"AUTH PLAIN AHNjaG9vbABodW50ZXIy\r\n"
    assert other == b"AUTH PLAIN AG90aGVyAHN3b3JkZmlzaA==\r\n"


# --- once a message is spoken of ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "steps",
    [
        [*GREETED, {"expect": "MAIL FROM"}, {"close": True}],
        [*GREETED, {"expect": "MAIL FROM"}, {"send": "421 4.3.2 leaving\r\n"}, {"close": True}],
        [*AT_RCPT, {"send": "450 4.2.1 later\r\n"}, *BYE],
        [*AT_DATA, {"close": True}],
        [*AT_DOT, {"close": True}],
        [*AT_DOT, {"send": "451 4.3.0 trouble\r\n"}, *BYE],
    ],
    ids=["mail-closed", "mail-421", "rcpt-450", "data-closed", "dot-closed", "dot-451"],
)
async def test_an_attempt_that_was_spoken_of_is_never_moved_to_another_relay(steps: Steps) -> None:
    async with ScriptedPeer(scripts=[steps]) as first, ScriptedPeer(scripts=[TAKING]) as second:
        evidence = await hand_over_once(first, envelope(), **fall_back(second))
    assert judge(evidence).outcome is not Outcome.ACCEPTED
    assert evidence.facts["relay"] == name(first)
    assert second.connections == 0


async def test_a_kept_session_found_dead_is_renewed_with_its_own_relay_or_not_at_all() -> None:
    """The next numbered attempt may go to another."""
    dying: Steps = [*AT_DOT, QUEUED, {"expect": "MAIL FROM"}, {"close": True}]
    async with (
        ScriptedPeer(scripts=[dying, BUSY]) as first,
        ScriptedPeer(scripts=[TAKING]) as second,
    ):
        channel = channel_for(first, **fall_back(second))
        assert judge(await hand_over(channel, envelope())).outcome is Outcome.ACCEPTED
        evidence = await hand_over(channel, envelope())
        assert (evidence.stage, evidence.reply_code) == ("greeting", 421)
        assert evidence.facts == {"relay": name(first)}
        assert second.connections == 0
        evidence = await hand_over(channel, envelope())
        assert evidence.facts == {"relay": name(second)}
        assert judge(evidence).outcome is Outcome.ACCEPTED
        await channel.aclose()
    assert first.connections == 2


# --- when all refuse ----------------------------------------------------------------------------------


async def refused_by(steps: Sequence[Steps], **changes: Any) -> tuple[Evidence, list[str]]:
    """Return the evidence of a session that each of some relays refused, and their names."""
    async with AsyncExitStack() as stack:
        peers = [
            await stack.enter_async_context(ScriptedPeer(scripts=[script])) for script in steps
        ]
        channel = channel_for(peers[0], **fall_back(*peers[1:], **changes), **changes)
        with pytest.raises(SessionRefused) as refused:
            async with channel.sendledger_session():
                pass
        await channel.aclose()
        assert [peer.connections for peer in peers] == [1] * len(peers)
    return refused.value.evidence, [name(peer) for peer in peers]


@pytest.mark.parametrize("order", [1, -1])
async def test_one_relay_that_may_come_back_makes_it_an_outage_and_no_pause(order: int) -> None:
    """A wrong password needs a person, but a pause would outlast the outage of the other relay."""
    evidence, names = await refused_by([WRONG_PASSWORD, BUSY][::order], **LOGIN)
    found = judge(evidence)
    assert (found.outcome, found.scope) == (Outcome.TRANSIENT, Scope.CHANNEL)
    assert evidence.facts == {"relay": names[::order][1]}


async def test_relays_that_all_need_a_person_are_a_configuration_fault() -> None:
    banned: Steps = [{"send": "554 5.7.1 no service for you\r\n"}, HUSH]
    evidence, names = await refused_by([WRONG_PASSWORD, banned], **LOGIN)
    assert judge(evidence).configuration_fault
    assert (evidence.reply_code, evidence.facts) == (535, {"relay": names[0]})


@pytest.mark.parametrize(
    ("other", "wait"),
    [
        (BUSY, None),
        ([{"send": "421 try again in 5 minutes\r\n"}, HUSH], timedelta(minutes=5)),
        ([{"send": "421 try again in 1 hour\r\n"}, HUSH], timedelta(minutes=10)),
    ],
)
async def test_the_shortest_stated_wait_holds_where_every_relay_states_one(
    other: Steps, wait: timedelta | None
) -> None:
    told: Steps = [{"send": "421 try again in 10 minutes\r\n"}, HUSH]
    evidence, names = await refused_by([told, other])
    assert (evidence.retry_after, evidence.facts["relay"]) == (wait, names[0])


async def test_a_relay_that_is_passed_over_is_told_of_without_its_name_or_a_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with ScriptedPeer(scripts=[WRONG_PASSWORD]) as first, fallen_back() as second:
        await hand_over_once(first, envelope(), **fall_back(second), **LOGIN)
        alone = await hand_over_once(second, envelope())
        assert judge(alone).outcome is Outcome.TRANSIENT
    assert [record.getMessage() for record in caplog.records] == [
        "relay 1 of 2 failed at auth, 535: it comes last for 0:00:15"
    ]


def fallen_back() -> ScriptedPeer:
    """Return a relay that takes one message and is then too busy."""
    return ScriptedPeer(scripts=[TAKING, BUSY])


async def test_a_wrong_password_is_shown_once_whoever_waits_for_a_session() -> None:
    async with ScriptedPeer(scripts=[WRONG_PASSWORD] * 9) as peer:
        channel = channel_for(peer, sessions_max="50", **LOGIN)
        found = await asyncio.gather(*(hand_over(channel, envelope()) for _ in range(50)))
        assert {evidence.reply_code for evidence in found} == {535}
        assert peer.connections == 1
        await channel.aclose()
    assert sum(octets.startswith(b"AUTH") for octets in said(peer)) == 1


# --- a relay that is away -----------------------------------------------------------------------------


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def go_on(self, by: timedelta) -> None:
        self.now += by.total_seconds()


async def leads_to(pool: Pool, held: AsyncExitStack | None = None) -> str:
    """Return the relay of a session, which stays lent while *held* is open."""
    if held is None:
        async with AsyncExitStack() as briefly:
            return await leads_to(pool, briefly)
    session = await held.enter_async_context(pool.lend())
    return session.route.name


async def test_a_relay_that_is_away_costs_its_patience_once_in_a_while(tmp_path: Path) -> None:
    clock = Clock()
    async with (
        ScriptedPeer(scripts=[[HUSH]] * 9) as first,
        CaptureServer(journal=tmp_path / "accepted.jsonl") as second,
    ):
        patience = PROMPT | {"greeting": "50ms"}
        settings = settings_for(first, timeouts=patience, **fall_back(second))
        pool = Pool(settings, [None, None], clock)
        async with AsyncExitStack() as held:
            assert {await leads_to(pool, held) for _ in range(3)} == {name(second)}
            assert first.connections == 1
            clock.go_on(REST)
            assert await leads_to(pool, held) == name(second)
            assert first.connections == 2
            clock.go_on(REST)
            assert await leads_to(pool, held) == name(second)
            assert first.connections == 2
            clock.go_on(REST)
        async with AsyncExitStack() as held:
            pool._idle.clear()
            assert {await leads_to(pool, held) for _ in range(2)} == {name(second)}
            assert first.connections == 3
        await pool.aclose()


async def test_a_relay_that_came_back_is_preferred_again(tmp_path: Path) -> None:
    clock = Clock()
    async with (
        CaptureServer(journal=tmp_path / "first.jsonl") as first,
        CaptureServer(journal=tmp_path / "second.jsonl") as second,
    ):
        pool = Pool(settings_for(first, **fall_back(second)), [None, None], clock)
        await first.close()
        async with AsyncExitStack() as held:
            assert await leads_to(pool, held) == name(second)
            await first.reopen()
            assert await leads_to(pool, held) == name(second)
            clock.go_on(REST)
            assert await leads_to(pool, held) == name(first)
        await pool.aclose()


async def test_failures_at_the_same_time_are_one_failure() -> None:
    clock = Clock()
    async with (
        ScriptedPeer(scripts=[SERVING, *[BUSY] * 4, SERVING]) as first,
        ScriptedPeer(scripts=[SERVING] * 9) as second,
    ):
        pool = Pool(settings_for(first, **fall_back(second)), [None, None], clock)
        async with AsyncExitStack() as held:
            assert await leads_to(pool, held) == name(first)
            together = [leads_to(pool, held) for _ in range(4)]
            assert set(await asyncio.gather(*together)) == {name(second)}
            assert first.connections == 5
        pool._idle.clear()
        clock.go_on(REST)
        assert await leads_to(pool) == name(first)
        await pool.aclose()


async def test_a_relay_at_rest_is_asked_when_no_other_serves() -> None:
    clock = Clock()
    async with (
        ScriptedPeer(scripts=[BUSY, SERVING]) as first,
        ScriptedPeer(scripts=[SERVING, BUSY]) as second,
    ):
        pool = Pool(settings_for(first, **fall_back(second)), [None, None], clock)
        async with AsyncExitStack() as held:
            assert await leads_to(pool, held) == name(second)
            assert await leads_to(pool, held) == name(first)
        await pool.aclose()


async def test_a_stated_wait_lengthens_the_rest_up_to_its_bound() -> None:
    clock = Clock()
    told: Steps = [{"send": "421 4.3.2 try again in 2 hours\r\n"}, {"close": True}]
    async with (
        ScriptedPeer(scripts=[told, SERVING]) as first,
        ScriptedPeer(scripts=[SERVING] * 9) as second,
    ):
        pool = Pool(settings_for(first, **fall_back(second)), [None, None], clock)
        async with AsyncExitStack() as held:
            assert await leads_to(pool, held) == name(second)
            clock.go_on(REST_MAX - timedelta(seconds=1))
            assert await leads_to(pool, held) == name(second)
            clock.go_on(timedelta(seconds=1))
            assert await leads_to(pool, held) == name(first)
        await pool.aclose()


async def test_a_relay_that_breaks_one_submission_after_the_other_comes_last() -> None:
    """It opens sessions, and takes nothing: only what it does with messages tells."""
    breaking: Steps = [*AT_DATA, {"close": True}]
    async with (
        ScriptedPeer(scripts=[breaking] * 9) as first,
        ScriptedPeer(scripts=[TAKING]) as second,
    ):
        channel = channel_for(first, **fall_back(second))
        found = [await hand_over(channel, envelope()) for _ in range(BREAKS_MAX + 1)]
        await channel.aclose()
    assert [evidence.facts["relay"] for evidence in found] == [name(first)] * 3 + [name(second)]
    assert judge(found[-1]).outcome is Outcome.ACCEPTED


async def test_a_wait_that_one_relay_asks_for_is_none_of_the_channels_while_another_is_ready() -> (
    None
):
    leaving: Steps = [
        *AT_DATA,
        {"send": "421 4.3.2 try again in 10 minutes\r\n"},
        {"close": True},
    ]
    async with (
        ScriptedPeer(scripts=[leaving, leaving]) as first,
        ScriptedPeer(scripts=[leaving]) as second,
    ):
        alone = await hand_over_once(first, envelope())
        assert alone.retry_after == timedelta(minutes=10)
        channel = channel_for(first, **fall_back(second))
        found = [await hand_over(channel, envelope()) for _ in range(2)]
        await channel.aclose()
    assert [(evidence.facts["relay"], evidence.retry_after) for evidence in found] == [
        (name(first), None),
        (name(second), timedelta(minutes=10)),
    ]


# --- how many at once ---------------------------------------------------------------------------------


async def test_sessions_grow_from_few_to_the_maximum_while_the_relay_takes_what_it_gets(
    tmp_path: Path,
) -> None:
    async with CaptureServer(journal=tmp_path / "accepted.jsonl", fsync=False) as server:
        channel = channel_for(server, sessions_max="8")
        await asyncio.gather(*(hand_over(channel, envelope()) for _ in range(5)))
        assert server.connections.peak <= 5
        await asyncio.gather(*(hand_over(channel, envelope()) for _ in range(60)))
        assert server.connections.peak == 8
        await channel.aclose()


async def test_a_goodbye_halves_the_sessions_and_acceptances_bring_them_back(
    tmp_path: Path,
) -> None:
    async with CaptureServer(journal=tmp_path / "accepted.jsonl", fsync=False) as server:
        channel = channel_for(server, sessions_max="4")
        ramp = channel._pool._ramp
        limits = []
        for command in ("rcpt-421-4.3.2", "greeting-421-4.3.2"):
            server.play(command)
            await hand_over(channel, envelope())
            limits.append(ramp.limit)
        server.play()
        for _ in range(6):
            await hand_over(channel, envelope())
        assert (*limits, ramp.limit) == (2, 1, 4)
        await channel.aclose()


async def test_a_refused_recipient_costs_no_session(tmp_path: Path) -> None:
    async with CaptureServer(journal=tmp_path / "accepted.jsonl", fsync=False) as server:
        channel = channel_for(server, sessions_max="4")
        server.play("rcpt-550-5.1.1")
        await hand_over(channel, envelope())
        server.play("rcpt-450-4.2.1")
        await hand_over(channel, envelope())
        assert channel._pool._ramp.limit == 4
        await channel.aclose()


async def test_greylisting_that_names_its_wait_is_evidence_of_it() -> None:
    told = {"send": "450 4.2.0 Greylisted for 420 seconds\r\n"}
    async with ScriptedPeer(scripts=[[*AT_RCPT, told, *BYE]]) as peer:
        evidence = await hand_over_once(peer, envelope())
    assert evidence.retry_after == timedelta(seconds=420)
    assert judge(evidence).rule == "smtp.greylisted"
