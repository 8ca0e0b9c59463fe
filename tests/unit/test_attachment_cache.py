"""Files are read once, verified, bounded in bytes and in time; an outage is told from a missing file."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from datetime import timedelta

import pytest

from sendledger.attachments import AttachmentFault, Cache, Files, Reference, StoreAway
from sendledger.settings.attachments import AttachmentSettings
from sendledger.settings.policy import PolicySettings
from sendledger.work.enclosing import Outage
from stores import ROOT, ShakyStore

POLICY = PolicySettings().for_channel("email", window=timedelta(days=5), revision="1")
CONTENTS = {f"{ROOT}/s{n}.pdf": bytes([n]) * 100 for n in range(10)}


@pytest.fixture(autouse=True)
def store() -> type[ShakyStore]:
    ShakyStore.restock(CONTENTS)
    return ShakyStore


def files(max_bytes: int = 1000, within: timedelta = timedelta(seconds=20)) -> Files:
    return Files(AttachmentSettings(roots=(ROOT,), max_bytes=max_bytes, fetch_max=within))


def reference(number: int, **changes: str | int | None) -> Reference:
    url = f"{ROOT}/s{number}.pdf"
    content = CONTENTS.get(url, b"")
    given: dict[str, object] = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "media_type": "application/pdf",
        "size_bytes": len(content),
        "url": url,
        "name": "report.pdf",
    }
    return Reference(**(given | changes))  # type: ignore[arg-type]


async def lent(cache: Cache, *references: Reference) -> tuple[bytes, ...]:
    async with cache.lend(references) as contents:
        return contents


async def test_a_file_is_weighed_without_being_kept() -> None:
    weight = await files().weigh(f"{ROOT}/s1.pdf")
    assert weight.sha256 == hashlib.sha256(bytes([1]) * 100).hexdigest()
    assert weight.size_bytes == 100


async def test_the_same_file_is_fetched_once_however_many_ask(store: type[ShakyStore]) -> None:
    cache = Cache(files(), max_bytes=10_000)
    asked = [lent(cache, reference(1), reference(2)) for _ in range(40)]
    assert set(await asyncio.gather(*asked)) == {(bytes([1]) * 100, bytes([2]) * 100)}
    assert store.opened == {"reports/s1.pdf": 1, "reports/s2.pdf": 1}


async def test_the_oldest_are_forgotten_when_too_much_is_kept(store: type[ShakyStore]) -> None:
    cache = Cache(files(), max_bytes=250)
    for number in (1, 2, 1, 3, 1, 2):
        await lent(cache, reference(number))
        assert cache.kept_bytes <= 250
    assert store.opened == {"reports/s1.pdf": 1, "reports/s2.pdf": 2, "reports/s3.pdf": 1}


async def test_no_more_is_lent_at_a_time_than_the_bound_and_all_get_theirs() -> None:
    cache = Cache(files(), max_bytes=250)
    most = 0

    async def use(number: int) -> None:
        nonlocal most
        async with cache.lend([reference(number)]):
            most = max(most, cache.lent_bytes)
            await asyncio.sleep(0)

    await asyncio.gather(*(use(number) for number in range(10)))
    assert (most, cache.lent_bytes) == (200, 0)


async def test_a_message_that_needs_more_than_the_bound_goes_alone() -> None:
    cache = Cache(files(), max_bytes=150)
    async with cache.lend([reference(1), reference(2)]):
        waiting = asyncio.create_task(lent(cache, reference(3)))
        await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting == (bytes([3]) * 100,)


async def test_who_stops_waiting_takes_nothing_from_others(store: type[ShakyStore]) -> None:
    cache = Cache(files(), max_bytes=10_000)
    store.hanging = threading.Event()
    first = asyncio.create_task(lent(cache, reference(1)))
    second = asyncio.create_task(lent(cache, reference(1)))
    for _ in range(3):  # turns of the loop, until both wait for the file
        await asyncio.sleep(0)
    assert cache.lent_bytes == 200
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    store.hanging.set()
    assert await second == (bytes([1]) * 100,)
    assert cache.lent_bytes == 0


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"url": f"{ROOT}/nobody.pdf"}, "attachment.missing"),
        ({"sha256": "0" * 64}, "attachment.changed"),
    ],
)
async def test_a_file_that_is_not_the_planned_one_is_a_fault_of_its_own(
    changes: dict[str, str], rule: str
) -> None:
    with pytest.raises(AttachmentFault) as fault:
        await lent(Cache(files(), max_bytes=1000), reference(1, **changes))
    assert fault.value.rule == rule
    assert "nobody" not in str(fault.value)


async def test_a_file_is_read_no_further_than_the_bound(store: type[ShakyStore]) -> None:
    assert await files(max_bytes=100).fetch(reference(1))
    with pytest.raises(AttachmentFault, match="larger than 99 bytes") as fault:
        await files(max_bytes=99).fetch(reference(1))
    assert fault.value.rule == "attachment.too-large"
    assert store.opened == {"reports/s1.pdf": 1}


@pytest.mark.parametrize(
    ("fault", "alone"),
    [
        (ConnectionRefusedError("10.0.0.1"), False),
        (TimeoutError(), False),
        (RuntimeError("token=hunter2"), False),
        (PermissionError("s1.pdf"), True),
    ],
)
async def test_whatever_a_store_raises_is_an_outage_that_quotes_nothing(
    store: type[ShakyStore], fault: Exception, alone: bool
) -> None:
    store.fault = fault
    with pytest.raises(StoreAway) as away:
        await files().fetch(reference(1))
    assert (away.value.fault, away.value.alone) == (type(fault).__name__, alone)
    assert str(away.value) == f"the store of attachments is away: {type(fault).__name__}"


async def test_a_store_that_hangs_is_given_up_and_blocks_nobody(store: type[ShakyStore]) -> None:
    store.hanging = threading.Event()
    reading = files(within=timedelta(milliseconds=50))
    try:
        faults = await asyncio.gather(
            *(reading.fetch(reference(number)) for number in range(10)), return_exceptions=True
        )
    finally:
        store.hanging.set()
    assert {str(fault) for fault in faults} == {"the store of attachments is away: timeout"}


def test_one_row_alone_closes_the_store_for_nobody() -> None:
    outage = Outage(policy=POLICY)
    assert [outage.met(1, now) for now in (0.0, 1.0, 2.0, 3.0)] == [POLICY.probe] * 4
    assert [outage.ask(intent_id, 3.0) for intent_id in range(100)] == [None] * 100


def test_a_store_that_is_away_is_asked_ever_more_rarely_until_it_gives_something() -> None:
    outage = Outage(policy=POLICY)
    now, waits = 0.0, []
    for _ in range(6):
        for intent_id in (1, 2, 3):
            wait = outage.met(intent_id, now)
        assert outage.ask(4, now) == wait
        waits.append(wait)
        now += wait.total_seconds()
        # It is asked again by as many as can close it, and by the next when one had its answer.
        asked = [outage.ask(intent_id, now) for intent_id in range(5)]
        assert asked == [None, None, None, POLICY.probe, POLICY.probe]
        outage.done(1)
        assert outage.ask(5, now) is None
        for intent_id in range(6):
            outage.done(intent_id)
    assert [wait / POLICY.probe for wait in waits] == [1, 2, 4, 8, 10, 10]
    outage.over()
    assert [outage.met(intent_id, now) for intent_id in (1, 2, 3)] == [POLICY.probe] * 3


def test_who_meets_a_closed_store_waits_with_the_others() -> None:
    outage = Outage(policy=POLICY)
    for intent_id in (1, 2, 3):
        outage.met(intent_id, 0.0)
    assert outage.met(4, 10.0) == POLICY.probe - timedelta(seconds=10)
    assert outage.ask(4, 29.9) == POLICY.probe / 10
