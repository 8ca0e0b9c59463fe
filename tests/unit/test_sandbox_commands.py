"""What the sandbox takes for MAIL and RCPT."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendledger_sandbox.commands import CommandRefused, Mail, decode_xtext, parse_mail, parse_rcpt


def test_mail_tells_what_its_parameters_announce() -> None:
    found = parse_mail(
        "FROM:<b+abc@sender.example> SIZE=12 BODY=8BITMIME SMTPUTF8 RET=HDRS ENVID=a+2Bb+3Dc"
    )
    assert found == Mail(
        path="b+abc@sender.example", envid="a+b=c", size_bytes=12, eight_bit=True, utf8=True
    )


def test_the_null_reverse_path_is_empty() -> None:
    assert parse_mail("FROM:<>").path == ""


def test_the_case_of_keywords_does_not_matter_and_that_of_an_envid_is_kept() -> None:
    assert parse_mail("from:<b@sender.example> envid=AbC body=8bitmime").envid == "AbC"


@pytest.mark.parametrize(
    ("argument", "code"),
    [
        ("FROM:b@sender.example", "501 5.1.7"),
        ("FROM: <b@sender.example>", "501 5.1.7"),
        ("<b@sender.example>", "501 5.1.7"),
        ("FROM:<b>", "501 5.1.7"),
        ("FROM:<b..c@sender.example>", "501 5.1.7"),
        ("FROM:<b@-sender.example>", "501 5.1.7"),
        ("FROM:<b c@sender.example>", "501 5.1.7"),
        (f"FROM:<{'b' * 65}@sender.example>", "501 5.1.7"),
        ("FROM:<bé@sender.example>", "553 5.6.7"),
        ("FROM:<b@sender.example>SIZE=1", "501 5.1.7"),
        ("FROM:<b@sender.example> SIZE=x", "501 5.5.4"),
        ("FROM:<b@sender.example> SIZE=1 size=2", "501 5.5.4"),
        ("FROM:<b@sender.example> BODY=BINARYMIME", "501 5.5.4"),
        ("FROM:<b@sender.example> RET=SOME", "501 5.5.4"),
        ("FROM:<b@sender.example> ENVID=a+zz", "501 5.5.4"),
        ("FROM:<b@sender.example> ENVID=", "501 5.5.4"),
        (f"FROM:<b@sender.example> ENVID={'a' * 101}", "501 5.5.4"),
        ("FROM:<b@sender.example> NOTIFY=NEVER", "555 5.5.4"),
    ],
)
def test_mail_is_refused_with_the_code_that_says_why(argument: str, code: str) -> None:
    with pytest.raises(CommandRefused) as refused:
        parse_mail(argument)
    assert refused.value.reply.startswith(code)


@pytest.mark.parametrize(
    "argument",
    [
        "TO:<pat@example.test>",
        "TO:<pat@example.test> NOTIFY=FAILURE,DELAY ORCPT=rfc822;pat+40example.test",
    ],
)
def test_rcpt_gives_the_forward_path(argument: str) -> None:
    assert parse_rcpt(argument, utf8=False) == "pat@example.test"


def test_a_quoted_local_part_and_an_address_literal_are_mailboxes() -> None:
    assert parse_rcpt('TO:<"a > b"@[192.0.2.1]>', utf8=False) == '"a > b"@[192.0.2.1]'


@pytest.mark.parametrize(
    ("argument", "code"),
    [
        ("TO:<>", "501 5.1.3"),
        ("TO:<pat@example.test> NOTIFY=NEVER,DELAY", "501 5.5.4"),
        ("TO:<pat@example.test> NOTIFY=", "501 5.5.4"),
        ("TO:<pat@example.test> ORCPT=pat", "501 5.5.4"),
        ("TO:<pat@example.test> ORCPT=rfc822;p+q", "501 5.5.4"),
        ("TO:<pat@example.test> SIZE=1", "555 5.5.4"),
        ("TO:<pät@example.test>", "553 5.6.7"),
    ],
)
def test_rcpt_is_refused_with_the_code_that_says_why(argument: str, code: str) -> None:
    with pytest.raises(CommandRefused) as refused:
        parse_rcpt(argument, utf8=False)
    assert refused.value.reply.startswith(code)


def test_an_address_beyond_ascii_is_taken_once_smtputf8_was_announced() -> None:
    assert parse_rcpt("TO:<pät@exämple.test>", utf8=True) == "pät@exämple.test"


def test_the_lenient_server_takes_a_space_behind_the_colon() -> None:
    assert parse_mail("FROM: <b@sender.example>", strict=False).path == "b@sender.example"


@given(st.text(st.characters(min_codepoint=1, max_codepoint=126)))
def test_xtext_decodes_to_what_was_encoded(text: str) -> None:
    encoded = "".join(c if "!" <= c <= "~" and c not in "+=" else f"+{ord(c):02X}" for c in text)
    assert decode_xtext(encoded) == text
