"""Messages as they would be written, in a folder for a person to look at; nothing is planned."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import typer

from sendledger.bootstrap import key_ring, read_plan
from sendledger.cli.batch import placed, read_attaching, read_columns, read_intake
from sendledger.cli.columns import Columns
from sendledger.cli.errors import UsageFault
from sendledger.cli.recipients import Recipients
from sendledger.cli.text import counted
from sendledger.journal.attaching import Attaching, NothingAttached
from sendledger.journal.batch import Entry, Reject
from sendledger.journal.intake import Intake
from sendledger.journal.plan import singly
from sendledger.settings.batch import BatchFile

_OURS = re.compile(r"line-[0-9]{6,}\.(?:eml|html|txt|raw)")


@dataclass(slots=True, kw_only=True)
class Preview:
    """How many messages were written, and the rows among them for which none could be."""

    written: int = 0
    rejects: list[Reject] = field(default_factory=list)


async def show_preview(
    config: Path, batch: BatchFile, recipients: Recipients, folder: Path, messages_max: int
) -> int:
    """Write the preview of *batch*, say what it holds, and return how many rows were rejected."""
    described = read_plan(config)
    intake = read_intake(batch, described.host, key_ring(described.settings))
    attaching = read_attaching(batch, described)
    columns = read_columns(batch, intake, nested=recipients.nested, beside=attaching.names)
    entries = singly(recipients.blocks(columns))
    with placed(batch):
        seen = await write_preview(intake, attaching, entries, folder, messages_max=messages_max)
    for reject in seen.rejects:
        tell_reject(columns, reject)
    typer.echo(
        f"wrote {seen.written} to {folder}, rejected {len(seen.rejects)}; nothing was planned"
    )
    return len(seen.rejects)


def tell_reject(columns: Columns, reject: Reject) -> None:
    """Say on standard error why a row was rejected."""
    place = f"line {reject.line} {columns.names().get(reject.field, '')}".rstrip()
    typer.echo(f"sendledger: {place}: {reject.reason}; {reject.remedy}", err=True)


async def write_preview(
    intake: Intake,
    attaching: Attaching | NothingAttached,
    entries: AsyncIterator[Entry],
    folder: Path,
    *,
    messages_max: int,
) -> Preview:
    """Write the first messages into *folder*, one file each and one more for the text and the HTML in it.

    The files of an earlier preview are removed. Raises :class:`UsageFault`.
    """
    seen = Preview()
    try:
        _prepare(folder)
        async for entry in attaching.attached(entries):
            found = await _message(intake, attaching, entry)
            if isinstance(found, Reject):
                seen.rejects.append(found)
                continue
            _write_message(folder / f"line-{entry.line:06}", found)
            seen.written += 1
            if seen.written == messages_max:
                break
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        raise UsageFault(
            f"{folder}: the preview cannot be written ({reason}); choose another folder"
        ) from None
    return seen


async def _message(
    intake: Intake, attaching: Attaching | NothingAttached, entry: Entry
) -> bytes | Reject:
    if isinstance(entry, Reject):
        return entry
    contents = await attaching.contents(entry)
    return contents if isinstance(contents, Reject) else intake.message(entry, contents)


def _prepare(folder: Path) -> None:
    """Make *folder* empty and private; never touch what an earlier preview did not write."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = list(folder.iterdir())
    if strange := [path for path in found if not _OURS.fullmatch(path.name)]:
        raise UsageFault(
            f"{folder}: holds {counted(len(strange), 'file')} of no preview; choose another folder"
        )
    folder.chmod(0o700)
    for path in found:
        path.unlink()


def _write_message(stem: Path, message: bytes) -> None:
    mail = _mail(message)
    if mail is None:
        _write(stem.with_suffix(".txt" if _is_text(message) else ".raw"), message)
        return
    _write(stem.with_suffix(".eml"), message)
    for subtype, suffix in (("plain", ".txt"), ("html", ".html")):
        body = mail.get_body(preferencelist=(subtype,))
        if body is not None:
            # Mail says what it is encoded in; a file can only say so with a mark.
            _write(stem.with_suffix(suffix), body.get_content().encode("utf-8-sig"))


def _mail(message: bytes) -> EmailMessage | None:
    """Return *message* if it is mail (RFC 5322); other channels write what they like."""
    read = message_from_bytes(message, policy=policy.default)
    assert isinstance(read, EmailMessage)
    return read if read["From"] and read["Date"] else None


def _is_text(message: bytes) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in message


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
