"""Attachments: files go as they were planned, to whom they were planned for, under names that stay names."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from sendledger.plugin.channel import Addressee, Attachment, ContentFault
from sendledger.plugin.conformance.bench import Bench, bench, bounded
from sendledger.plugin.conformance.destinations import CONTROLS
from sendledger.plugin.conformance.rig import ChannelRig
from sendledger.plugin.conformance.writing import INTRUDER

ANY_BYTES = bytes(range(256)) * 5
LINES = b"From here on\r\n.\r\n..\n\r--\r\n\r\n" * 3
FILES = (
    Attachment(name="report.pdf", media_type="application/pdf", content=ANY_BYTES),
    Attachment(name="Übersicht für Zoë, 李.txt", media_type="text/plain", content=LINES),
    Attachment(name="nothing.bin", media_type="application/octet-stream", content=b""),
)
HOSTILE_NAMES = (
    f"{INTRUDER}\r\nBcc: {INTRUDER}@elsewhere.test",
    f"{INTRUDER}\n\n{INTRUDER}",
    f'{INTRUDER}"; x="',
    f"../../{INTRUDER}",
    f"C:\\{INTRUDER}",
    f"{INTRUDER}\0.pdf",
    f"{INTRUDER}\u202efdp.exe",
    f"{INTRUDER}\ud800",
    "",
)
"""Names that try to be more than a name: headers, folders, another kind of file."""


class EnclosingChecks:
    """A writer encloses the files that its addressee brings, and no others."""

    @bounded
    async def test_files_are_enclosed_as_they_were_planned(self, rig: ChannelRig) -> None:
        """Byte for byte, in order, each under its name and type; and the message is the same each time."""
        async with _enclosing(rig) as on:
            message = on.writer.write(_with(on, FILES))
            assert _enclosed(on, message) == FILES, "a reader finds other files"
            again = rig.timeless(on.writer.write(_with(on, FILES)))
            assert again == rig.timeless(message), "the same message is written differently"

    @bounded
    async def test_a_message_with_files_is_what_arrives(self, rig: ChannelRig) -> None:
        """The peer takes it whole, whatever bytes are in the files."""
        async with _enclosing(rig) as on:
            envelope = on.envelope_of(_with(on, FILES))
            taken = await on.take(envelope)
            assert taken.message == envelope.message, "the peer took something else"

    @bounded
    async def test_files_of_one_addressee_go_to_no_other(self, rig: ChannelRig) -> None:
        """Whoever brings none is sent none, whatever was written before."""
        async with _enclosing(rig) as on:
            alone = rig.timeless(on.writer.write(on.addressee(1)))
            on.writer.write(_with(on, FILES))
            after = on.writer.write(on.addressee(1))
            assert rig.timeless(after) == alone, "what was written before changes a message"
            assert _enclosed(on, after) == (), "files of another addressee are enclosed"

    @pytest.mark.parametrize("number", range(len(HOSTILE_NAMES)))
    @bounded
    async def test_a_hostile_name_is_refused_or_stays_a_name(
        self, rig: ChannelRig, number: int
    ) -> None:
        """No name becomes a header, a folder or a file of another kind; a refusal repeats none of it."""
        async with _enclosing(rig) as on:
            given = dataclasses.replace(FILES[0], name=HOSTILE_NAMES[number])
            tame = rig.structure(on.writer.write(_with(on, FILES[:1])))
            try:
                message = on.writer.write(_with(on, (given,)))
            except ContentFault as fault:
                _judge(fault)
                return
            assert rig.structure(message) == tame, "a name changes more than itself"
            [found] = _enclosed(on, message)
            assert found.content == given.content, "a name changes its file"
            assert not any(each in found.name for each in (*CONTROLS, "/", "\\")), (
                "a name holds a folder or a control character"
            )


@asynccontextmanager
async def _enclosing(rig: ChannelRig) -> AsyncIterator[Bench]:
    async with bench(rig) as on:
        if not on.port.capabilities.attachments:
            pytest.skip("not offered: attachments")
        yield on


def _with(on: Bench, files: Sequence[Attachment]) -> Addressee:
    return dataclasses.replace(on.addressee(), attachments=tuple(files))


def _enclosed(on: Bench, message: bytes) -> tuple[Attachment, ...]:
    return tuple(on.rig.enclosed(message))


def _judge(refusal: ContentFault) -> None:
    own = refusal.rule != "content.plugin-fault"
    assert own, "refuse it with a ContentFault of your own"
    assert INTRUDER not in str(refusal), "the refusal repeats the name"
