"""Whatever templates and values hold, the octets that leave read back as what was meant, and nothing more."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage, MIMEPart
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sendledger.content import load_content
from sendledger.plugin import Addressee, Content, ContentFault
from sendledger_smtp.letterhead import Letterhead
from sendledger_smtp.list_headers import Unsubscribe
from sendledger_smtp.message import compile_content
from sendledger_smtp.transaction import data_block

SPEC = {"subject": False, "text": False, "html": True}
TOKEN = "a" * 44
NASTY = [
    *(
        "\r\nBcc: spy@evil.example",
        "\nX: y",
        "\r",
        "=?utf-8?q?Hi=0ABcc:_x?=",
        "\u2028",
        "\x85",
        "\x00",
    ),
    *(
        "{{{secret}}}",
        "{{name}}",
        "<script>",
        '"><b',
        "&amp;",
        "--=_",
        ".",
        "\r\n.\r\n",
        "..",
        " .",
    ),
    *(
        "a" * 1000,
        "ü" * 400,
        "€\n",
        "=",
        "=20",
        " \n",
        "\t",
        "'",
        "@evil.example",
        ">, <x@y.example>",
    ),
    *("\N{RIGHT-TO-LEFT OVERRIDE}", "🎓" * 30, "日本語 " * 40, "-- \n", "From me\n"),
]
texts = st.lists(
    st.one_of(
        st.sampled_from(NASTY), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    ),
    max_size=4,
).map("".join)
# What stands in headers is refused with any control in it; most of these hold none.
titles = st.one_of(
    *[st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]))] * 4, texts
)
letters = st.text("ab ü\n.-=<p>&", max_size=200)
names = st.sampled_from(["name", "grade"])
templates = st.lists(
    st.one_of(letters, names.map("{{{{{}}}}}".format), st.just("{{#all}}* {{.}}; {{/all}}")),
    max_size=8,
).map("".join)
subjects = st.lists(
    st.one_of(st.text("ab ü.-=?", max_size=30), st.just("{{title}}")), max_size=4
).map("".join)

HEADERS = {
    *("Date", "From", "Reply-To", "Auto-Submitted", "MIME-Version", "To", "Subject", "Message-ID"),
    *("List-Unsubscribe", "List-Unsubscribe-Post", "Sendledger-Token", "Content-Type"),
}


def written(parts: dict[str, str], variables: dict[str, Any], from_name: str) -> bytes:
    compiled = load_content(parts, SPEC)
    content = Content(
        revision=compiled.revision_hex,
        parts=compiled.parts,
        settings={
            "from_name": from_name,
            "reply_to": "office@sender.example",
            "unsubscribe": "yes",
        },
    )
    letterhead = Letterhead(
        sender="reports@sender.example",
        sender_name="",
        message_id_domain="sender.example",
        unsubscribe=Unsubscribe(url="https://sender.example/u"),
    )
    addressee = Addressee(
        intent_key="1f" * 16,
        attempt_number=1,
        token=TOKEN,
        destination="pat@home.example",
        variables=variables,
    )
    clock = datetime(2026, 3, 2, 7, 30, tzinfo=UTC)
    return compile_content(content, letterhead, lambda: clock).write(addressee)


def shown(template: str, variables: dict[str, Any], *, escaped: bool) -> str:
    """Return what a template of ours shows, worked out by other means than ours."""

    def quoted(text: str) -> str:
        return html.escape(text) if escaped else text

    def found(match: re.Match[str]) -> str:
        if match[1]:
            return "".join(f"* {quoted(item)}; " for item in variables["all"])
        return quoted(variables[match[2]])

    return re.sub(r"({{#all}}\* {{\.}}; {{/all}})|{{(\w+)}}", found, template)


def lines_of(text: str) -> list[str]:
    found = re.split(r"\r\n|\r|\n", text)
    return found[:-1] if not found[-1] else found


def parts_of(message: EmailMessage) -> Iterator[tuple[str, str]]:
    for part in message.walk():
        if not part.is_multipart():
            assert isinstance(part, MIMEPart)
            octets = part.get_payload(decode=True)
            assert isinstance(octets, bytes)
            yield part.get_content_subtype(), octets.decode()


@settings(max_examples=150, deadline=None)
@given(
    st.fixed_dictionaries({"subject": subjects, "text": templates, "html": templates}),
    st.fixed_dictionaries(
        {"title": titles, "name": texts, "grade": texts, "all": st.lists(texts, max_size=3)}
    ),
    titles,
)
def test_any_message_reads_back_as_it_was_meant_or_is_refused(
    parts: dict[str, str], values: dict[str, Any], from_name: str
) -> None:
    try:
        raw = written(parts, values, from_name)
    except ContentFault as fault:
        assert fault.rule in {"content.header-injection", "content.header-too-long"}  # noqa: PT017
        return
    assert raw.count(b"\r\n") == raw.count(b"\n") == raw.count(b"\r")
    assert max(map(len, raw.split(b"\r\n"))) <= 998
    assert raw.isascii()
    message = message_from_bytes(raw, policy=policy.default)
    assert isinstance(message, EmailMessage)
    assert not message.defects
    assert set(message.keys()) == HEADERS
    assert len(message.keys()) == len(HEADERS)
    assert message["Subject"] == shown(parts["subject"], values, escaped=False)
    (sender,) = message["From"].addresses
    assert sender.addr_spec == "reports@sender.example"
    assert sender.display_name.replace(" ", "") == from_name.replace(" ", "")
    assert [one.addr_spec for one in message["To"].addresses] == ["pat@home.example"]
    assert [one.addr_spec for one in message["Reply-To"].addresses] == ["office@sender.example"]
    read = dict(parts_of(message))
    for name, part in (("plain", "text"), ("html", "html")):
        meant = shown(parts[part], values, escaped=part == "html")
        # The last line end before a boundary belongs to the boundary (RFC 2046 section 5.1.1).
        assert lines_of(f"{read[name]}\n") == (lines_of(meant) or [""])
    assert_dots_are_stuffed(raw)


def assert_dots_are_stuffed(raw: bytes) -> None:
    """On the wire only the last line is a lone dot, and a reader who unstuffs has the message."""
    sent = bytes(data_block(raw)).split(b"\r\n")
    assert sent[-2:] == [b".", b""]
    assert b"." not in sent[:-2]
    unstuffed = [line[1:] if line.startswith(b".") else line for line in sent[:-2]]
    assert b"\r\n".join([*unstuffed, b""]) == raw
