"""Bodies: rendered, counted, and refused before anybody is charged for them."""

# ruff: noqa: RUF001 - typography is what this is about

from __future__ import annotations

from typing import Any

import pytest

from sendledger.content import compile_template
from sendledger.plugin import Addressee, Content, ContentFault
from sendledger_twilio.message import TextWriter, compile_content
from sms_kit import PLEASANT, TOKEN, channel_for


def writer(text: str = "{{text}}", **changes: Any) -> TextWriter:
    content = Content(
        revision="5e" * 32, parts={"text": compile_template(text, name="text", html=False)}
    )
    given: dict[str, Any] = {"segments_max": 10, "smart_encoding": False}
    return compile_content(content, **given | changes)


def whom(text: str | None) -> Addressee:
    return Addressee(
        intent_key="1f" * 16,
        attempt_number=1,
        token=TOKEN,
        destination=PLEASANT,
        variables={} if text is None else {"text": text},
    )


def fault(text: str | None, **changes: Any) -> ContentFault:
    with pytest.raises(ContentFault) as caught:
        writer(**changes).write(whom(text))
    return caught.value


def test_a_body_is_the_rendered_text_in_utf_8() -> None:
    assert writer("Dear {{text}}").write(whom("Zoë & 李")) == "Dear Zoë & 李".encode()


def test_line_ends_are_one_character_each() -> None:
    assert writer().write(whom("a\r\nb\rc\nd")) == b"a\nb\nc\nd"


@pytest.mark.parametrize("text", ["", " ", "\n", "\u00a0"])
def test_an_empty_body_is_refused(text: str) -> None:
    assert fault(text).rule == "sms.empty"


def test_a_body_that_goes_as_too_many_segments_is_refused_with_the_count() -> None:
    refused = fault("я" * 71, segments_max=1)
    assert refused.rule == "sms.too-many-segments"
    assert "2 segments of UCS-2, of at most 1" in str(refused)
    assert writer(segments_max=1).write(whom("я" * 70))


def test_a_body_longer_than_twilio_takes_is_refused_whatever_the_segments() -> None:
    assert writer(segments_max=24).write(whom("a" * 1600))
    assert fault("a" * 1601, segments_max=24).rule == "sms.too-long"
    assert fault("\N{GRINNING FACE}" * 801, segments_max=24).rule == "sms.too-long"


@pytest.mark.parametrize("text", ["a\0", "a\x1b[2J", "a\tb", "a\x85b", "\x7f"])
def test_a_control_character_is_refused(text: str) -> None:
    assert fault(text).rule == "sms.control-character"


def test_half_a_character_pair_is_refused() -> None:
    assert fault("\ud800").rule == "content.not-unicode"


def test_a_missing_variable_is_named() -> None:
    refused = fault(None)
    assert (refused.rule, "'text'" in str(refused)) == ("content.variable-missing", True)


def test_smart_encoding_is_done_before_the_count() -> None:
    text = "it’s " + "a" * 100
    assert fault(text, segments_max=1).rule == "sms.too-many-segments"
    assert writer(segments_max=1, smart_encoding=True).write(whom(text)).startswith(b"it's ")


def test_content_without_a_text_or_with_settings_is_refused() -> None:
    with pytest.raises(ContentFault, match=r"content\.part-missing"):
        compile_content(Content(revision="x", parts={}), segments_max=1, smart_encoding=False)
    text = compile_template("x", name="text", html=False)
    with pytest.raises(ContentFault, match=r"content\.setting-unknown.*reply_to"):
        compile_content(
            Content(revision="x", parts={"text": text}, settings={"reply_to": "x"}),
            segments_max=1,
            smart_encoding=False,
        )


async def test_the_channel_counts_what_its_writer_wrote() -> None:
    assert channel_for().units_of(writer().write(whom("я" * 71))) == 2
