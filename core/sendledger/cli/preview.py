"""Messages as they would be written, in a folder for a person to look at; nothing is planned."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

from sendledger.cli.errors import UsageFault
from sendledger.journal.attaching import Attaching, NothingAttached
from sendledger.journal.batch import Entry, Reject
from sendledger.journal.intake import Intake

_OURS = re.compile(r"line-[0-9]{6,}\.(?:eml|html|raw)")


@dataclass(slots=True, kw_only=True)
class Preview:
    """How many messages were written, and the rows among them for which none could be."""

    written: int = 0
    rejects: list[Reject] = field(default_factory=list)


async def write_preview(
    intake: Intake,
    attaching: Attaching | NothingAttached,
    entries: AsyncIterator[Entry],
    folder: Path,
    *,
    messages_max: int,
) -> Preview:
    """Write the first messages into *folder*, one file each and one more for a part in HTML.

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
            f"{folder}: the preview cannot be written ({reason}); choose another with --preview-dir"
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
            f"{folder}: holds {len(strange)} files that are no preview; choose another with --preview-dir"
        )
    folder.chmod(0o700)
    for path in found:
        path.unlink()


def _write_message(stem: Path, message: bytes) -> None:
    mail = _mail(message)
    if mail is None:
        _write(stem.with_suffix(".raw"), message)
        return
    _write(stem.with_suffix(".eml"), message)
    html = mail.get_body(preferencelist=("html",))
    if html is not None:
        _write(stem.with_suffix(".html"), html.get_content().encode())


def _mail(message: bytes) -> EmailMessage | None:
    """Return *message* if it is mail (RFC 5322); other channels write what they like."""
    read = message_from_bytes(message, policy=policy.default)
    assert isinstance(read, EmailMessage)
    return read if read["From"] and read["Date"] else None


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
