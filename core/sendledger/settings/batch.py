"""The batch file: what is to be sent, on whose authority, and which columns hold whom it goes to."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.json_schema import WithJsonSchema

from sendledger.ledger.identity import identity_text
from sendledger.settings.model import Name
from sendledger.settings.problems import KeyPath, SettingsError, problem
from sendledger.settings.resolve import REFERENCES
from sendledger.settings.secret import Secret
from sendledger.settings.types import SettingsModel
from sendledger.settings.validate import RawBlock, explain
from sendledger.settings.yaml_text import (
    Block,
    Items,
    Node,
    Origin,
    Text,
    at,
    read_text,
    read_yaml,
)

LABEL_MAX = 200
ATTACHMENTS_MAX = 10

_MEDIA_TYPE = re.compile(
    r"(?!message/|multipart/)[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
    r"(; charset=[a-z0-9-]{1,40})?"
)


def label_text(found: str) -> str:
    """Return *found* in NFC without surrounding space. Raises ``ValueError``, which does not quote it."""
    clean = identity_text("the text", found)
    if len(clean) > LABEL_MAX:
        raise ValueError(f"expected at most {LABEL_MAX} characters")
    return clean


def media_type_text(found: str) -> str:
    """Return *found* if it is the type of one file. Raises ``ValueError``, which does not quote it."""
    if not _MEDIA_TYPE.fullmatch(found):
        raise ValueError("expected type and subtype of one file in lower case, such as image/png")
    return found


def _instant(found: Any) -> datetime:
    try:
        instant = datetime.fromisoformat(found) if isinstance(found, str) else found
        if isinstance(instant, datetime) and instant.tzinfo is not None:
            return instant.astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # their sentences quote the text
    raise ValueError("expected an instant with its zone, such as 2026-01-31T08:30:00+00:00")


Label = Annotated[str, AfterValidator(label_text)]
"""One line of text, 1 to 200 characters, in NFC and without surrounding space."""

MediaType = Annotated[str, AfterValidator(media_type_text)]
"""The type of one file (RFC 6838), perhaps with its charset; none of messages or of several parts."""

Instant = Annotated[
    datetime, BeforeValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"})
]
"""An instant in UTC, written in ISO 8601 with a zone."""


class AuthorizationSettings(SettingsModel):
    """Who allowed the batch, when, and under which reference it can be looked up."""

    id: Label
    by: Label
    at: Instant


class RecipientColumns(SettingsModel):
    """Which columns hold the caller's id for the person, and where to reach the person."""

    id: Label
    destination: Label


class AttachmentBlock(SettingsModel):
    """A file that goes with each message. ``url``, ``name`` and ``sha256`` may hold ``{{column}}``.

    Without ``sha256`` the file is read when it is planned, to know its digest.
    """

    url: str = Field(min_length=1)
    name: str = Field(min_length=1)
    media_type: MediaType
    sha256: str | None = None


class ContentBlock(SettingsModel):
    """The sources of the parts by name, beside the content's own ``settings``.

    With ``inline_css`` the style sheets of the HTML part are moved into its elements.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str] = Field(init=False)

    settings: dict[str, str] = Field(default={})
    inline_css: bool = False

    @property
    def parts(self) -> Mapping[str, str]:
        """Template sources by the name of the part; which there are is the channel's to say."""
        return self.__pydantic_extra__


class BatchSettings(SettingsModel):
    """One report for many recipients.

    ``content_revision`` is the caller's own label: another text under the same label is a conflict,
    never a second message. ``variables`` maps template variables to columns; without it each is read
    from the column of its own name. Nothing is sent before ``not_before`` or after ``not_after``.
    """

    report: Label
    content_revision: Label
    channel: Name
    purpose: Label
    lane: Literal["bulk", "transactional"] = "bulk"
    authorization: AuthorizationSettings
    not_before: Instant | None = None
    not_after: Instant | None = None
    recipients: RecipientColumns
    variables: dict[str, Label] | None = None
    content: ContentBlock
    attachments: tuple[AttachmentBlock, ...] = Field(default=(), max_length=ATTACHMENTS_MAX)

    @field_validator("not_after")
    @classmethod
    def _window_open(cls, not_after: Instant | None, info: ValidationInfo) -> Instant | None:
        not_before = info.data.get("not_before")
        if not_before and not_after and not_after <= not_before:
            raise ValueError("must be later than not_before")
        return not_after


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFile:
    """A batch file as read; ``node`` keeps its lines, for faults that are found only later."""

    settings: BatchSettings
    file: Path
    node: Block

    def place(self, path: KeyPath, *, line: int, column: int) -> str:
        """Return where *line* and *column* of the text at *path* stand, or where that text begins."""
        node = at(self.node, path)
        if not isinstance(node, Text) or node.origin is None:
            return f"{self.file} line {node.line}"
        line, column = node.origin.place(line, column)
        return f"{node.origin.file or self.file} line {line}, column {column}"

    def fault(
        self, path: KeyPath, sentence: str, *, line: int = 0, column: int = 0
    ) -> SettingsError:
        """Return an error about what stands at *path*, or at *line* and *column* of the text there.

        It is told with its place in the file that the text was written in.
        """
        node = at(self.node, path)
        if not line:
            return SettingsError([problem(path, node.line, sentence)], file=str(self.file))
        if not isinstance(node, Text) or node.origin is None:
            told = f"line {line}, column {column} of the text: {sentence}"
            return SettingsError([problem(path, node.line, told)], file=str(self.file))
        line, column = node.origin.place(line, column)
        told = problem(path, line, sentence, column=column)
        return SettingsError([told], file=str(node.origin.file or self.file))


def load_batch(file: Path) -> BatchFile:
    """Return the batch in *file*, with content parts read from the files it refers to.

    Raises :class:`SettingsError` with every problem found, none quoting a value.
    """
    problems: list[str] = []
    tree = _with_parts(read_yaml(file), file.parent, problems)
    data = _plain(tree)
    root = RawBlock(data=data, node=tree, where=(), file=str(file), folder=file.parent)
    try:
        settings = BatchSettings.model_validate(data)
    except ValidationError as error:
        problems += explain(error, BatchSettings, root)
    if problems:
        raise SettingsError(problems, file=str(file))
    return BatchFile(settings=settings, file=file, node=tree)


def _with_parts(tree: Block, folder: Path, problems: list[str]) -> Block:
    """Return *tree* with the text of each part in place of its ``{$file: path}``."""
    content = tree.entries.get("content")
    if not isinstance(content, Block):
        return tree
    parts = {
        name: _part(node, ("content", name), folder, problems)
        for name, node in content.entries.items()
    }
    entries = {**tree.entries, "content": dataclasses.replace(content, entries=parts)}
    return dataclasses.replace(tree, entries=entries)


def _part(node: Node, path: KeyPath, folder: Path, problems: list[str]) -> Node:
    match node:
        case Block(entries={"$file": Text(value=name), **others}) if not others:
            try:
                text = read_text(folder / name)
            except SettingsError as error:
                problems += [problem(path, node.line, f"{name}: {said}") for said in error.problems]
                text = ""
            origin = Origin(line=1, column=1, file=folder / name)
            return Text(value=_one_ended(text), line=node.line, origin=origin)
        case Text() if path != ("content", "settings"):
            return dataclasses.replace(node, value=_one_ended(node.value))
    return node


def _one_ended(text: str) -> str:
    """Return *text* as the same content wherever it was checked out, a single line without its end."""
    text = text.replace("\r\n", "\n")
    return text.removesuffix("\n") if text.count("\n") == 1 else text


def _plain(node: Node) -> Any:
    match node:
        case Text():
            return node.value
        case Items():
            return [_plain(item) for item in node.items]
        case Block() if REFERENCES & node.entries.keys():
            return Secret("")  # refused wherever it stands: a batch file holds no secret
        case Block():
            return {key: _plain(entry) for key, entry in node.entries.items()}
