"""Attachments: each recipient gets the very file that was planned, or fails alone with the reason."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import pytest

from acceptance.rig import Site, drained, people, relay_of, until, working
from sendledger_sandbox import CaptureServer
from stores import ROOT, ShakyStore

COUNT = 240


@pytest.fixture
def reports(site: Site) -> Path:
    """Make a folder of 240 different reports, which the settings allow and the batch names."""
    folder = site.folder / "reports"
    folder.mkdir()
    for number in range(1, COUNT + 1):
        (folder / f"s{number}.pdf").write_bytes(report(number))
    site.settings["attachments"] = {"roots": ["reports"], "max_bytes": "100kB"}
    site.batch["attachments"] = [
        {
            "url": f"file://{folder}/{{{{id}}}}.pdf",
            "name": "{{name}}.pdf",
            "media_type": "application/pdf",
        }
    ]
    return folder


def report(number: int) -> bytes:
    return b"%PDF-1.7\r\n.\r\n" + number.to_bytes(4, "big") * (1000 + number)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def received(relay: CaptureServer) -> dict[str, list[tuple[str | None, str]]]:
    """Return name and digest of each attachment that arrived, by recipient id."""
    assert relay.keep is not None
    found: dict[str, list[tuple[str | None, str]]] = {}
    for path in sorted(relay.keep.iterdir()):
        message = message_from_bytes(path.read_bytes(), policy=policy.default)
        assert isinstance(message, EmailMessage)
        files = [(one.get_filename(), digest(_content(one))) for one in message.iter_attachments()]
        found[message["To"].addresses[0].username.replace("parent", "s")] = files
    return found


def _content(part: EmailMessage) -> bytes:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content


async def test_240_recipients_get_240_different_reports_and_three_fail_alone(
    site: Site, reports: Path
) -> None:
    async with relay_of(site) as relay:
        await site.planned(people(COUNT))
        (reports / "s7.pdf").unlink()
        (reports / "s8.pdf").write_bytes(report(9))
        (reports / "s9.pdf").write_bytes(bytes(100_001))
        await drained(site)

        rules = {row.recipient_id: row.rule for row in site.rows() if row.status == "failed"}
        assert rules == {
            "s7": "attachment.missing",
            "s8": "attachment.changed",
            "s9": "attachment.too-large",
        }
        assert {row.attempts for row in site.rows() if row.recipient_id in rules} == {0}
        others = [n for n in range(1, COUNT + 1) if f"s{n}" not in rules]
        assert received(relay) == {
            f"s{n}": [(f"Child s{n}.pdf", digest(report(n)))] for n in others
        }


@pytest.fixture
def shaky(site: Site) -> Iterator[type[ShakyStore]]:
    """Let the reports of ten recipients lie in a store that can be taken away."""
    ShakyStore.restock({f"{ROOT}/s{n}.pdf": report(n) for n in range(1, 11)})
    site.settings["attachments"] = {"roots": [ROOT]}
    site.batch["attachments"] = [
        {"url": f"{ROOT}/{{{{id}}}}.pdf", "name": "Report.pdf", "media_type": "application/pdf"}
    ]
    yield ShakyStore
    ShakyStore.restock({})


async def test_rows_wait_while_their_store_is_away_and_go_by_themselves_when_it_is_back(
    site: Site, shaky: type[ShakyStore]
) -> None:
    async with relay_of(site) as relay:
        await site.planned(people(10))
        shaky.fault = ConnectionRefusedError("10.0.0.1")
        async with working(site):
            await until(lambda: {row.rule for row in site.rows()} == {"attachment.store-away"})
            assert {(row.status, row.awaits) for row in site.rows()} == {("planned", "dispatch")}
            # They were told once, however often they come again.
            told = site.count("observation")
            await until(lambda: shaky.refused > 12)
            assert (told, site.count("observation")) == (10, 10)
            assert (site.count("attempt"), relay.accepted) == (0, 0)
            shaky.fault = None
            await until(lambda: all(row.status == "submitted" for row in site.rows()))
        assert {(row.attempts, row.spent) for row in site.rows()} == {(1, 1)}
        assert site.tasks() == []
        assert received(relay) == {
            f"s{n}": [("Report.pdf", digest(report(n)))] for n in range(1, 11)
        }


@pytest.mark.parametrize("hangs", [False, True], ids=["refuses", "hangs"])
async def test_a_store_that_is_away_holds_up_nobody_without_attachments(
    site: Site, shaky: type[ShakyStore], hangs: bool
) -> None:
    async with relay_of(site):
        await site.planned(people(10))
        del site.batch["attachments"]
        site.batch["report"] = "news"
        site.settings["attachments"]["fetch_max"] = "200ms"
        await site.planned({"n1": "news1@home.test", "n2": "news2@home.test"})
        shaky.fault = ConnectionRefusedError("10.0.0.1")
        shaky.hanging = threading.Event() if hangs else None
        async with working(site):
            await until(lambda: site.row("n1").status == site.row("n2").status == "submitted")
            await until(lambda: site.row("s9").rule == "attachment.store-away")
            if shaky.hanging is not None:
                shaky.hanging.set()


async def test_a_file_that_is_kept_from_us_makes_its_own_row_wait(
    site: Site, shaky: type[ShakyStore]
) -> None:
    async with relay_of(site):
        await site.planned(people(10))
        shaky.forbidden = frozenset({"reports/s1.pdf", "reports/s2.pdf", "reports/s3.pdf"})
        async with working(site):
            await until(lambda: [row.status for row in site.rows()].count("submitted") == 7)
            await until(lambda: site.row("s3").rule == "attachment.store-away")
            shaky.forbidden = frozenset()
            await until(lambda: all(row.status == "submitted" for row in site.rows()))


async def test_rows_whose_last_instant_comes_before_the_store_fail_as_expired(
    site: Site, shaky: type[ShakyStore]
) -> None:
    async with relay_of(site):
        ends = datetime.now(UTC) + timedelta(seconds=4)
        site.batch["not_after"] = ends.isoformat()
        await site.planned(people(2))
        shaky.fault = ConnectionRefusedError("10.0.0.1")
        async with working(site):
            await until(lambda: all(row.rule == "policy.expired" for row in site.rows()))
        assert site.count("attempt") == 0


async def test_no_name_and_no_place_of_a_file_is_logged_or_told_unasked(
    site: Site, shaky: type[ShakyStore], capfd: pytest.CaptureFixture[str]
) -> None:
    shaky.restock({f"{ROOT}/s{n}.pdf": report(n) for n in range(1, 4)})
    async with relay_of(site):
        await site.planned(people(3))
        shaky.restock({f"{ROOT}/s3.pdf": b"another"})
        shaky.forbidden = frozenset({"reports/s1.pdf"})
        async with working(site):
            await until(
                lambda: (
                    [site.row(f"s{n}").rule for n in (1, 2, 3)]
                    == ["attachment.store-away", "attachment.missing", "attachment.changed"]
                )
            )
        told = [site.row(f"s{n}").key for n in (1, 2, 3)]
        shown = "".join([(await site.tell("explain", key)).all for key in told])
        shown += (await site.tell("status")).all + (await site.tell("tasks")).all
        logged = capfd.readouterr()
        for trace in ("shaky:", "reports/", "Report.pdf"):
            assert trace not in shown + logged.out + logged.err
