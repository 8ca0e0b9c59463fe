"""Files in a message arrive as they were, under the name they were given, beside what is read."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage, Message

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendledger.content import load_content
from sendledger.plugin import Addressee, Attachment, Content, ContentFault
from sendledger_smtp.letterhead import Letterhead
from sendledger_smtp.message import MessageWriter, compile_content

NOW = datetime(2026, 3, 2, 7, 30, tzinfo=UTC)
LETTERHEAD = Letterhead(
    sender="reports@sender.example", sender_name="Reports", message_id_domain="id.sender.example"
)
PDF = b"%PDF-1.7\r\n\0\xff\r\n.\r\n" * 40


def writer(**parts: str) -> MessageWriter:
    spec = {"subject": False, "text": False, "html": True}
    compiled = load_content({"subject": "Report", **parts}, spec)
    content = Content(
        revision=compiled.revision_hex, parts=compiled.parts, settings=compiled.settings
    )
    return compile_content(content, LETTERHEAD, lambda: NOW)


def attachment(
    name: str = "report.pdf", content: bytes = PDF, media_type: str = "application/pdf"
) -> Attachment:
    return Attachment(name=name, media_type=media_type, content=content)


def written(on: MessageWriter, *attachments: Attachment) -> bytes:
    return on.write(
        Addressee(
            intent_key="1f" * 16,
            attempt_number=1,
            token="a" * 44,
            destination="pat@example.test",
            variables={},
            attachments=attachments,
        )
    )


def parsed(message: bytes) -> EmailMessage:
    read = message_from_bytes(message, policy=policy.default)
    assert isinstance(read, EmailMessage)
    assert not [part.defects for part in read.walk() if part.defects]
    return read


def files(message: bytes) -> list[tuple[str | None, str, bytes]]:
    return [
        (part.get_filename(), part.get_content_type(), _content(part))
        for part in parsed(message).iter_attachments()
    ]


def _content(part: Message) -> bytes:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content


def test_a_message_without_attachments_is_what_it_was() -> None:
    assert parsed(written(writer(text="Hello."))).get_content_type() == "text/plain"


@pytest.mark.parametrize(
    ("parts", "structure"),
    [
        ({"text": "Hello."}, ["multipart/mixed", "text/plain", "application/pdf"]),
        (
            {"text": "Hello.", "html": "<p>Hello.</p>"},
            [
                "multipart/mixed",
                *("multipart/alternative", "text/plain", "text/html"),
                "application/pdf",
            ],
        ),
    ],
)
def test_files_stand_beside_all_that_is_read(parts: dict[str, str], structure: list[str]) -> None:
    message = written(writer(**parts), attachment())
    assert [part.get_content_type() for part in parsed(message).walk()] == structure
    body = parsed(message).get_body(preferencelist=("plain",))
    assert body is not None
    assert body.get_content().rstrip() == "Hello."
    assert files(message) == [("report.pdf", "application/pdf", PDF)]


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4))
def test_every_octet_arrives_in_the_order_given(contents: list[bytes]) -> None:
    message = written(writer(text="x"), *(attachment(content=content) for content in contents))
    assert [content for _, _, content in files(message)] == contents


@pytest.mark.parametrize("size_bytes", [57 * 1024 - 1, 57 * 1024, 57 * 1024 + 1, 200_000])
def test_a_large_file_is_one_body_of_lines_that_are_all_full(size_bytes: int) -> None:
    content = bytes(n % 251 for n in range(size_bytes))
    message = written(writer(text="Hello."), attachment(content=content))
    assert [found for _, _, found in files(message)] == [content]
    body = message.rpartition(b"\r\n\r\n")[2].splitlines()[:-1]
    assert {len(line) for line in body[:-1]} == {76}


@given(st.binary(min_size=1, max_size=2000))
def test_no_line_is_too_long_or_ends_otherwise_than_in_crlf(content: bytes) -> None:
    lines = written(writer(text="x"), attachment(content=content)).split(b"\r\n")
    assert max(map(len, lines)) <= 78
    assert not any(mark in line for line in lines for mark in (b"\r", b"\n"))


@pytest.mark.parametrize(
    "name",
    [
        "report.pdf",
        "Report of Sam (spring) 100%.pdf",
        'a "quoted"; name*.pdf',
        "Zeugnis Müller.pdf",
        "成績表.pdf",
        "=?utf-8?q?Hi?=.pdf",
        "ö" * 70 + ".pdf",
        "x" * 150,
    ],
)
def test_a_name_arrives_as_it_was_given(name: str) -> None:
    message = written(writer(text="x"), attachment(name))
    assert message.isascii()
    assert [found for found, _, _ in files(message)] == [name]


@pytest.mark.parametrize(
    "name",
    ["", "a\r\nBcc: eve@evil.test", "a\0", "a\x7f", "../a.pdf", "c:\\a.pdf", "report\u202efdp.exe"],
)
def test_a_name_that_is_more_than_a_name_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(ContentFault, match="no plain file name") as refused:
        written(writer(text="x"), attachment(name))
    assert refused.value.rule == "attachment.name"
    assert "eve" not in str(refused.value)


@pytest.mark.parametrize(
    "media_type",
    [
        "pdf",
        "application/",
        "application/pdf\r\nX: 1",
        "message/rfc822",
        "multipart/mixed",
        "a/b c",
    ],
)
def test_a_type_that_mail_cannot_carry_is_refused(media_type: str) -> None:
    with pytest.raises(ContentFault, match="media type"):
        written(writer(text="x"), attachment(media_type=media_type))


def test_a_type_may_name_its_charset() -> None:
    message = written(writer(text="x"), attachment("a.csv", b"a,b\n", "text/csv; charset=utf-8"))
    assert files(message) == [("a.csv", "text/csv", b"a,b\n")]


def test_the_same_message_is_written_the_same_each_time() -> None:
    assert written(writer(text="x"), attachment()) == written(writer(text="x"), attachment())
