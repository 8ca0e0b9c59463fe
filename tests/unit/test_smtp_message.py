"""Messages parse back to what was asked for, whatever people typed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.message import EmailMessage, Message
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendledger.plugin import Addressee, Content, ContentFault
from sendledger_smtp.body import SplicedBody, write_body
from sendledger_smtp.header import write_mailbox, write_text
from sendledger_smtp.letterhead import Letterhead
from sendledger_smtp.message import MessageWriter, compile_content

NOW = datetime(2026, 3, 2, 7, 30, tzinfo=UTC)
LETTERHEAD = Letterhead(
    sender="reports@sender.example", sender_name="Reports", message_id_domain="id.sender.example"
)
KEY, TOKEN = "1f" * 16, "abcdefghijklmnopqrstuvwxyz234567abcdefghijkl"


class Plain:
    """A template whose text is ``{name}``-formatted."""

    def __init__(self, source: str) -> None:
        self._source = source

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(re.findall(r"{(\w+)}", self._source))

    @property
    def static(self) -> tuple[str, ...]:
        return tuple(re.split(r"{\w+}", self._source))

    def splice(self, values: Mapping[str, Any]) -> list[str]:
        return [str(values[name]) for name in re.findall(r"{(\w+)}", self._source)]

    def render(self, values: Mapping[str, Any]) -> str:
        return self._source.format_map(values)


def content(settings: Any = None, **parts: str) -> Content:
    templates = {part: Plain(source) for part, source in parts.items()}
    return Content(revision="ab" * 32, parts=templates, settings=settings or {})


def writer(settings: Mapping[str, str] | None = None, **parts: str) -> MessageWriter:
    return compile_content(content(settings, **parts), LETTERHEAD, lambda: NOW)


def addressee(destination: str = "pat@example.com", **variables: Any) -> Addressee:
    return Addressee(
        intent_key=KEY,
        attempt_number=1,
        token=TOKEN,
        destination=destination,
        variables=variables,
    )


def parse(raw: bytes) -> EmailMessage:
    assert raw.count(b"\r\n") == raw.count(b"\n") == raw.count(b"\r")
    assert max(map(len, raw.split(b"\r\n"))) <= 998
    message = message_from_bytes(raw, policy=policy.default)
    assert isinstance(message, EmailMessage)
    assert not message.defects
    return message


def text_of(part: Message) -> str:
    assert isinstance(part, EmailMessage)
    found = part.get_content()
    assert isinstance(found, str)
    return found.replace("\r\n", "\n").removesuffix("\n")


def test_the_headers_are_these_and_no_others() -> None:
    raw = writer({"reply_to": "office@school.test"}, subject="Hi {n}", text="x").write(
        addressee(n="Ann")
    )
    message = parse(raw)
    assert dict(message.items()) == {
        "Date": "Mon, 02 Mar 2026 07:30:00 +0000",
        "From": "Reports <reports@sender.example>",
        "Reply-To": "office@school.test",
        "Auto-Submitted": "auto-generated",
        "MIME-Version": "1.0",
        "To": "pat@example.com",
        "Subject": "Hi Ann",
        "Message-ID": f"<{KEY}@id.sender.example>",
        "Sendledger-Token": TOKEN,
        "Content-Type": 'text/plain; charset="utf-8"',
        "Content-Transfer-Encoding": "7bit",
    }


def test_a_message_is_the_same_whenever_it_is_written_but_for_its_date() -> None:
    one = content(subject="s", text="t", html="<p>h</p>")
    first = compile_content(one, LETTERHEAD, lambda: NOW).write(addressee())
    later = compile_content(one, LETTERHEAD, lambda: NOW.replace(year=2027)).write(addressee())
    differing = [
        a for a, b in zip(first.split(b"\r\n"), later.split(b"\r\n"), strict=True) if a != b
    ]
    assert differing == [b"Date: Mon, 02 Mar 2026 07:30:00 +0000"]


def test_text_and_html_are_alternatives_and_the_richer_is_last() -> None:
    raw = writer(subject="s", text="Grüße {n}", html="<p>{n}</p>").write(addressee(n="Ann"))
    message = parse(raw)
    assert message.get_content_type() == "multipart/alternative"
    plain, html = message.iter_parts()
    assert (plain.get_content_type(), html.get_content_type()) == ("text/plain", "text/html")
    assert text_of(plain) == "Grüße Ann"
    assert text_of(html) == "<p>Ann</p>"


@pytest.mark.parametrize("part", ["text", "html"])
def test_one_body_needs_no_alternatives(part: str) -> None:
    message = parse(
        compile_content(content(**{"subject": "s", part: "x"}), LETTERHEAD, lambda: NOW).write(
            addressee()
        )
    )
    assert message.get_content_type() == {"text": "text/plain", "html": "text/html"}[part]
    assert text_of(message) == "x"


def test_a_body_that_spells_the_boundary_ends_nothing() -> None:
    made = writer(subject="s", text="{b}", html="<p>h</p>")
    boundary = parse(made.write(addressee(b=""))).get_boundary()
    message = parse(made.write(addressee(b=f"x\n--{boundary}--\nstill text")))
    plain, _html = message.iter_parts()
    assert text_of(plain) == f"x\n--{boundary}--\nstill text"


@pytest.mark.parametrize(
    ("settings", "parts", "rule"),
    [
        ({}, {"text": "x"}, "content.part-missing"),
        ({}, {"subject": "x"}, "content.part-missing"),
        ({"from": "x@y.example"}, {"subject": "s", "text": "t"}, "content.setting-unknown"),
        ({"reply_to": "Office <x@y.example>"}, {"subject": "s", "text": "t"}, "content.reply-to"),
        (
            {"from_name": "a\r\nBcc: x@y.example"},
            {"subject": "s", "text": "t"},
            "content.header-injection",
        ),
    ],
)
def test_content_that_can_never_be_sent_is_refused_when_it_is_prepared(
    settings: dict[str, str], parts: dict[str, str], rule: str
) -> None:
    with pytest.raises(ContentFault) as caught:
        writer(settings, **parts)
    assert caught.value.rule == rule
    assert "example" not in str(caught.value)


def test_a_missing_variable_is_named_and_holds_one_message() -> None:
    made = writer(subject="s", text="{mark}")
    with pytest.raises(ContentFault, match="mark") as caught:
        made.write(addressee())
    assert caught.value.rule == "content.variable-missing"
    assert text_of(parse(made.write(addressee(mark="1")))) == "1"


CONTROLS = ["\r", "\n", "\r\n", "\x00", "\t", "\x0b", "\x7f", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("control", CONTROLS)
def test_a_control_character_in_a_subject_is_refused_and_not_stripped(control: str) -> None:
    with pytest.raises(ContentFault) as caught:
        writer(subject="{n}", text="t").write(addressee(n=f"Ann{control}Bcc: spy@evil.example"))
    assert caught.value.rule == "content.header-injection"
    assert "evil" not in str(caught.value)


def test_a_control_character_in_a_destination_is_refused() -> None:
    with pytest.raises(ContentFault, match="destination"):
        writer(subject="s", text="t").write(addressee("a@b.example\r\nBcc: c@d.example"))


def test_half_a_character_pair_is_a_fault_of_the_content() -> None:
    made = writer(subject="{s}", text="{t}")
    for variables in ({"s": "\ud800", "t": "x"}, {"s": "x", "t": "\ud800"}):
        with pytest.raises(ContentFault) as caught:
            made.write(addressee(**variables))
        assert caught.value.rule == "content.not-unicode"


def test_an_unfit_intent_key_is_a_mistake_of_the_caller() -> None:
    one = Addressee(
        intent_key="a>b", attempt_number=1, token=TOKEN, destination="a@b.example", variables={}
    )
    with pytest.raises(ValueError, match="intent key"):
        writer(subject="s", text="t").write(one)


def test_a_destination_with_a_non_ascii_local_part_stands_as_it_is() -> None:
    raw = writer(subject="s", text="t").write(addressee("josé@example.com"))
    assert "\r\nTo: josé@example.com\r\n".encode() in raw


writable = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=200)


@given(st.one_of(writable, st.sampled_from(["=?utf-8?q?Hi=0ABcc:_x?=", " a ", "x" * 2000, ""])))
def test_any_subject_decodes_to_the_literal_text_in_one_header(subject: str) -> None:
    raw = b"Subject: " + write_text(subject) + b"\r\n\r\n"
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    message = message_from_bytes(raw, policy=policy.default)
    assert message.keys() == ["Subject"]
    assert message["Subject"] == subject


@given(st.one_of(writable, st.sampled_from(["=?utf-8?q?a=40b?=", 'a"b\\c', "a <b@c.example>, d"])))
def test_any_display_name_is_one_mailbox_under_that_name_or_refused(name: str) -> None:
    try:
        line = write_mailbox("From", name, "reports@sender.example")
    except ValueError:
        return
    message = message_from_bytes(line + b"\r\n", policy=policy.default)
    (address,) = message["From"].addresses
    assert address.addr_spec == "reports@sender.example"
    assert message.keys() == ["From"]
    # The reader of Python 3.11 puts a blank between two encoded-words of a name; its older one does not.
    assert address.display_name.replace(" ", "") == name.replace(" ", "")
    if b"=?utf-8?b?" in line:
        phrase = line.removeprefix(b"From: ").rpartition(b"<")[0].decode().removesuffix(" ")
        assert str(make_header(decode_header(phrase))) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Ann",
        "O'Neill, Ann",
        "Büro für alles, was lange dauert",
        'a"b\\c',
        "x" * 990,
        "ü" * 990,
        "=?x?=",
    ],
)
def test_names_as_people_have_them_are_written_and_start_on_the_first_line(name: str) -> None:
    assert len(write_mailbox("From", name, "a@b.example").split(b"\r\n")[0]) > len("From: x")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=3000))
def test_any_body_reads_back_as_it_was_and_is_ascii_in_short_lines(text: str) -> None:
    body = write_body("plain", text.encode())
    raw = body.headers + body.octets
    assert raw.isascii()
    message = parse(raw)
    octets = message.get_payload(decode=True)
    assert isinstance(octets, bytes)
    read = octets.decode().replace("\r\n", "\n")
    assert read == text if text.endswith("\n") else text + "\n"


def test_line_ends_of_every_kind_become_crlf() -> None:
    assert write_body("plain", b"a\nb\rc\r\nd").octets == b"a\r\nb\r\nc\r\nd\r\n"


@pytest.mark.parametrize("text", [b"x" * 999, b"a\x00b", "ü".encode(), b"--=_x"])
def test_what_is_not_safe_as_it_is_goes_quoted_printable(text: bytes) -> None:
    body = write_body("plain", text)
    assert b"quoted-printable" in body.headers
    assert max(map(len, body.octets.split(b"\r\n"))) <= 76


pieces = st.one_of(
    st.sampled_from(
        [
            "",
            "\n",
            "\r",
            "\r\n",
            "a\n\nb\n",
            "x" * 990,
            "--=",
            "_x",
            ".",
            ". \n",
            " \n",
            "=00\n",
            "\0\n",
            "ü\n",
        ]
    ),
    st.text("ab=_-. \t\r\n\0ü€", max_size=30),
)


@given(st.lists(pieces, min_size=1, max_size=12))
def test_splicing_into_encoded_lines_gives_the_octets_of_encoding_all_of_it(
    texts: list[str],
) -> None:
    texts = texts if len(texts) % 2 else [*texts, ""]
    body = SplicedBody("plain", texts[::2])
    assert body.write(texts[1::2]) == write_body("plain", "".join(texts).encode())
