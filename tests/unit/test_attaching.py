"""A batch with attachments goes through a channel that carries files, or through none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from plugins_for_tests.members import port, recorder
from sendledger.attachments import Files
from sendledger.journal.attaching import Attaching, NothingAttached, open_attaching
from sendledger.journal.batch import AttachmentSource, Authorization, Batch, BatchFault, Row
from sendledger.settings.attachments import AttachmentSettings
from stores import ROOT

SOURCE = AttachmentSource(url=f"{ROOT}/{{{{id}}}}.pdf", name="a.pdf", media_type="application/pdf")


def batch(*attachments: AttachmentSource) -> Batch:
    return Batch(
        report="spring",
        content_revision="1",
        channel="desk",
        purpose="news",
        authorization=Authorization(id="A", by="head", at=datetime(2026, 3, 2, tzinfo=UTC)),
        parts={},
        attachments=attachments,
    )


def test_a_channel_that_carries_no_files_is_refused_before_anybody_is_planned() -> None:
    files = Files(AttachmentSettings(roots=(ROOT,)))
    with pytest.raises(BatchFault, match='the channel "desk" carries no files') as fault:
        open_attaching(batch(SOURCE), {"desk": port(recorder())}, files)
    assert fault.value.path == ("attachments",)


def test_the_variables_of_a_url_are_read_beside_those_of_the_content() -> None:
    assert Attaching([SOURCE], Files(AttachmentSettings(roots=(ROOT,)))).names == {"id"}


async def test_rows_of_a_batch_without_attachments_pass_as_they_are() -> None:
    attaching = open_attaching(batch(), {}, Files(AttachmentSettings()))
    assert isinstance(attaching, NothingAttached)
    rows = [Row(line, "s1", "s1@home.test", {}) for line in (1, 2)]
    read: list[int] = []

    def reading() -> Iterator[Row]:
        for row in rows:
            read.append(row.line)
            yield row

    async for row in attaching.attached(reading()):
        assert row is rows[row.line - 1]
        assert read == list(range(1, row.line + 1))  # none is read ahead
