"""From a recipient's variables to the files that go with the message, each known by its digest.

A file that cannot go rejects its own recipient. What is wrong for everybody - a channel that carries no
files, a shared file that is missing, a store that is away - is the batch's fault, and plans nobody.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sendledger.attachments import (
    AttachmentFault,
    Files,
    PlaceRefused,
    Reference,
    SchemeRefused,
    StoreAway,
    Weight,
    clean_name,
)
from sendledger.content import TemplateError, UnusableValue
from sendledger.content.template import CompiledTemplate, compile_template
from sendledger.journal.batch import (
    ATTACHMENTS,
    VARIABLE,
    AttachmentSource,
    Batch,
    BatchFault,
    Entry,
    Reject,
    Row,
)
from sendledger.journal.plan import Blocks, Entries, each
from sendledger.plugin import Attachment
from sendledger.plugin.port import ChannelPort
from sendledger.settings.batch import media_type_text

AHEAD_ROWS = 16
"""How many recipients' files are weighed together; how many are read at once is ``Files``' to say."""

WEIGHTS_MAX = 10_000

_SHA256 = re.compile("[0-9a-f]{64}")
_LET_IN = "the file may not be read; let the user who runs sendledger read it"


@dataclass(slots=True, kw_only=True)
class _Source:
    """One attachment of the batch; ``weight`` is known beforehand of a file that everybody gets."""

    url: CompiledTemplate
    name: CompiledTemplate
    sha256: CompiledTemplate | None
    media_type: str
    weight: Weight | None = None

    @property
    def names(self) -> frozenset[str]:
        """The variables it needs."""
        own = self.url.names | self.name.names
        return own if self.sha256 is None else own | self.sha256.names


class _Refused(Exception):  # noqa: N818 - a refusal is the word for it
    def __init__(self, template: CompiledTemplate, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.field = VARIABLE + min(template.names) if template.names else ATTACHMENTS
        self.reason = reason
        self.remedy = remedy


class Attaching:
    """The files of one batch. ``names`` are the variables that say which they are."""

    def __init__(self, sources: Sequence[AttachmentSource], files: Files) -> None:
        """Compile *sources*. Raises :class:`BatchFault` for what can fit no recipient."""
        self._files = files
        self._weights: dict[str, Weight] = {}
        self._sources = [_compiled(place, source) for place, source in enumerate(sources, 1)]
        self.names = frozenset().union(*(source.names for source in self._sources))
        try:
            files.places.refuse_unusable()
        except PlaceRefused as refused:
            raise BatchFault((ATTACHMENTS,), str(refused)) from None

    async def attached(self, entries: Entries) -> AsyncIterator[Entry]:
        """Yield *entries* in order, each row with its attachments, or a reject in its place.

        Raises :class:`BatchFault`, and whatever *entries* raises.
        """
        await self._weigh_shared()
        ahead: list[Entry] = []
        async for entry in each(entries):
            ahead.append(entry)
            if len(ahead) == AHEAD_ROWS:
                for done in await self._attach_all(ahead):
                    yield done
                ahead.clear()
        for done in await self._attach_all(ahead):
            yield done

    async def attached_blocks(self, blocks: Blocks) -> AsyncIterator[Sequence[Entry]]:
        """Yield the entries of *blocks* in order as :meth:`attached` does, some at a time."""
        await self._weigh_shared()
        async for block in blocks:
            for first in range(0, len(block), AHEAD_ROWS):
                yield await self._attach_all(block[first : first + AHEAD_ROWS])

    async def contents(self, row: Row) -> tuple[Attachment, ...] | Reject:
        """Return the files of an attached *row*, to look at. Raises :class:`BatchFault`."""
        found: list[Attachment] = []
        for source, reference in zip(self._sources, row.attachments, strict=True):
            try:
                content = await self._fetch(source, reference)
            except _Refused as refused:
                return _reject(row, refused)
            found.append(
                Attachment(name=reference.name, media_type=reference.media_type, content=content)
            )
        return tuple(found)

    async def _weigh_shared(self) -> None:
        for place, source in enumerate(self._sources, 1):
            if source.url.names or source.sha256 is not None:
                continue
            try:
                source.weight = await self._weigh(source, source.url.render({}))
            except _Refused as refused:
                sentence = f"attachment {place}: {refused.reason}; {refused.remedy}"
                raise BatchFault((ATTACHMENTS,), sentence) from None

    async def _attach_all(self, entries: Sequence[Entry]) -> list[Entry]:
        done = await asyncio.gather(
            *(self._attach(entry) for entry in entries), return_exceptions=True
        )
        # Raised only now, when nobody is left reading for nobody.
        if faults := [found for found in done if isinstance(found, BaseException)]:
            raise faults[0]
        return [found for found in done if not isinstance(found, BaseException)]

    async def _attach(self, entry: Entry) -> Entry:
        if isinstance(entry, Reject):
            return entry
        values = _values(self.names, entry.variables)
        try:
            references = [await self._reference(source, values) for source in self._sources]
        except _Refused as refused:
            return _reject(entry, refused)
        except SchemeRefused as refused:
            raise BatchFault((ATTACHMENTS,), f"line {entry.line}: {refused}") from None
        return entry._replace(attachments=tuple(references))

    async def _reference(self, source: _Source, values: Mapping[str, Any]) -> Reference:
        url = _render(source.url, values)
        weight = source.weight or await self._weight(source, url, values)
        try:
            name = clean_name(_render(source.name, values))
        except ValueError as error:
            raise _Refused(source.name, str(error), "give it another name") from None
        return Reference(
            sha256=weight.sha256,
            media_type=source.media_type,
            size_bytes=weight.size_bytes,
            url=url,
            name=name,
        )

    async def _weight(self, source: _Source, url: str, values: Mapping[str, Any]) -> Weight:
        if source.sha256 is None:
            return await self._weigh(source, url)
        self._check(source, url)
        digest = _render(source.sha256, values).lower()
        if not _SHA256.fullmatch(digest):
            reason = "the digest is no SHA-256 in hexadecimal"
            raise _Refused(source.sha256, reason, "write 64 digits, or leave sha256 out")
        return Weight(sha256=digest, size_bytes=None)

    def _check(self, source: _Source, url: str) -> None:
        try:
            self._files.places.check(url)
        except SchemeRefused:
            raise
        except PlaceRefused as refused:
            raise _Refused(source.url, str(refused), "name a file below a root") from None

    async def _weigh(self, source: _Source, url: str) -> Weight:
        self._check(source, url)
        if url in self._weights:  # many recipients may share a file that not all do
            return self._weights[url]
        try:
            weight = await self._files.weigh(url)
        except (AttachmentFault, PlaceRefused, StoreAway) as error:
            raise _refusal(source, error) from None
        if len(self._weights) < WEIGHTS_MAX:
            self._weights[url] = weight
        return weight

    async def _fetch(self, source: _Source, reference: Reference) -> bytes:
        try:
            return await self._files.fetch(reference)
        except (AttachmentFault, PlaceRefused, StoreAway) as error:
            raise _refusal(source, error) from None


class NothingAttached:
    """The way of a batch without attachments: its rows pass as they are."""

    names: frozenset[str] = frozenset()

    def attached(self, entries: Entries) -> AsyncIterator[Entry]:
        """Yield *entries* as they are."""
        return each(entries)

    def attached_blocks(self, blocks: Blocks) -> Blocks:
        """Return *blocks* as they are."""
        return blocks

    async def contents(self, _row: Row) -> tuple[Attachment, ...]:
        """Return no files."""
        return ()


def open_attaching(
    batch: Batch, channels: Mapping[str, ChannelPort], files: Files
) -> Attaching | NothingAttached:
    """Return how the rows of *batch* come by their files. Raises :class:`BatchFault`."""
    if not batch.attachments:
        return NothingAttached()
    channel = channels.get(batch.channel)
    if channel is not None and not channel.capabilities.attachments:
        sentence = f'the channel "{batch.channel}" carries no files; leave attachments out'
        raise BatchFault((ATTACHMENTS,), sentence)
    return Attaching(batch.attachments, files)


def _compiled(place: int, source: AttachmentSource) -> _Source:
    return _Source(
        url=_template(place, "url", source.url),
        name=_template(place, "name", source.name),
        sha256=None if source.sha256 is None else _template(place, "sha256", source.sha256),
        media_type=_media_type(place, source.media_type),
    )


def _media_type(place: int, text: str) -> str:
    try:
        return media_type_text(text)
    except ValueError as error:
        raise BatchFault((ATTACHMENTS,), f"attachment {place}, media_type: {error}") from None


def _template(place: int, key: str, text: str) -> CompiledTemplate:
    where = f"attachment {place}, {key}"
    try:
        compiled = compile_template(text, name=key, html=False)
        compiled.render(dict.fromkeys(compiled.names, "x"))
    except TemplateError as error:
        raise BatchFault((ATTACHMENTS,), f"{where}: {error.sentence}") from None
    except KeyError as error:
        sentence = f"{{{{{error.args[0]}}}}} looks inside of a value; use a plain name"
        raise BatchFault((ATTACHMENTS,), f"{where}: {sentence}") from None
    return compiled


def _values(names: frozenset[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the templates may look up; text of nothing but space is no value."""
    values = {name: given.get(name) for name in names}
    return {
        name: (value.strip() or None) if isinstance(value, str) else value
        for name, value in values.items()
    }


def _render(template: CompiledTemplate, values: Mapping[str, Any]) -> str:
    try:
        return template.render(values)
    except UnusableValue as error:
        reason = f"found a {error.kind}; the {template.name} of a file takes a text or a number"
        raise _Refused(template, reason, "correct the value") from None
    except KeyError:
        reason = f"a value of the file's {template.name} is empty"
        raise _Refused(template, reason, "fill it in") from None


def _refusal(
    source: _Source, error: AttachmentFault | PlaceRefused | StoreAway
) -> _Refused | BatchFault:
    match error:
        case AttachmentFault():
            return _Refused(source.url, error.reason, error.remedy)
        case PlaceRefused():
            return _Refused(source.url, str(error), "name a file below a root")
        case StoreAway(alone=True):
            reason, _, remedy = _LET_IN.partition("; ")
            return _Refused(source.url, reason, remedy)
        case StoreAway():
            sentence = (
                f"the store of the files does not answer ({error.fault}); plan again when it does"
            )
            return BatchFault((ATTACHMENTS,), sentence)


def _reject(row: Row, refused: _Refused) -> Reject:
    return Reject(line=row.line, field=refused.field, reason=refused.reason, remedy=refused.remedy)
