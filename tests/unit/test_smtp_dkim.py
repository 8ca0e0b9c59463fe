"""DKIM: what our signer signs, dkimpy verifies; what is changed afterwards, it does not."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from functools import cache
from typing import Any

import dkim
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sendledger.content import load_content
from sendledger.plugin import Addressee, Content, Secret
from sendledger_smtp.dkim import DkimSettings, DkimSigner
from sendledger_smtp.letterhead import Letterhead
from sendledger_smtp.list_headers import Unsubscribe
from sendledger_smtp.message import compile_content

NAMES = {"domain": "sender.example", "selector": "s2026"}
SPEC = {"subject": False, "text": False, "html": True}
NOW = datetime(2026, 3, 2, 7, 30, tzinfo=UTC)


@cache
def key(kind: str) -> Any:
    if kind == "ed25519":
        return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    return rsa.generate_private_key(public_exponent=65537, key_size=int(kind))


def pem(private: PrivateKeyTypes) -> Secret:
    return Secret(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()
    )


def published(kind: str) -> bytes:
    """Return the TXT record that the world sees (RFC 6376 section 3.6.1, RFC 8463 section 4)."""
    public = key(kind).public_key()
    if kind == "ed25519":
        return b"v=DKIM1; k=ed25519; p=" + b64encode(public.public_bytes_raw())
    der = public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return b"v=DKIM1; k=rsa; p=" + b64encode(der)


def signer(kind: str) -> DkimSigner:
    return DkimSigner(DkimSettings(**NAMES, key=pem(key(kind))))


def verified(message: bytes, kind: str = "ed25519") -> bool:
    def look_up(name: bytes, timeout: int = 5) -> bytes:
        del timeout
        assert name == b"s2026._domainkey.sender.example."
        return published(kind)

    found: bool = dkim.verify(message, dnsfunc=look_up)
    return found


def written(kind: str | None, *, name: str = "Zoë", rehearsal: bool = False) -> bytes:
    parts = {"subject": "For {{name}}", "text": "Hi {{name}}  \n\n\n", "html": "<p>{{name}}</p>\t"}
    compiled = load_content(parts, SPEC)
    content = Content(
        revision=compiled.revision_hex,
        parts=compiled.parts,
        settings={"unsubscribe": "yes", "reply_to": "office@sender.example"},
        rehearsal=rehearsal,
    )
    letterhead = Letterhead(
        sender="reports@sender.example",
        sender_name="Büro, Reports",
        message_id_domain="sender.example",
        unsubscribe=Unsubscribe(url="https://sender.example/u", mailto="leave@sender.example"),
        signer=None if kind is None else signer(kind),
    )
    addressee = Addressee(
        intent_key="1f" * 16,
        attempt_number=1,
        token="a" * 44,
        destination="pat@home.example",
        variables={"name": name},
    )
    return compile_content(content, letterhead, lambda: NOW).write(addressee)


@pytest.mark.parametrize("kind", ["1024", "2048", "ed25519"])
def test_a_signed_message_verifies(kind: str) -> None:
    assert verified(written(kind), kind)


def test_the_signature_stands_before_the_message_and_changes_nothing_of_it() -> None:
    signed = written("ed25519")
    assert signed.startswith(b"DKIM-Signature: ")
    assert signed.endswith(b"\r\n" + written(None))


def test_the_same_message_has_the_same_signature() -> None:
    assert written("2048") == written("2048")


def test_a_rehearsal_is_not_signed() -> None:
    assert written("ed25519", rehearsal=True) == written(None)


def test_no_line_of_a_signature_is_long() -> None:
    signature = written("2048").split(b"Date:")[0]
    assert max(map(len, signature.split(b"\r\n"))) <= 78


@pytest.mark.parametrize(
    "header",
    [
        *(b"From", b"To", b"Subject", b"Date", b"Reply-To", b"Message-ID", b"MIME-Version"),
        *(b"Content-Type", b"Auto-Submitted", b"List-Unsubscribe", b"List-Unsubscribe-Post"),
    ],
)
def test_a_header_that_was_changed_is_noticed(header: bytes) -> None:
    signed = written("ed25519")
    changed = signed.replace(b"\r\n" + header + b": ", b"\r\n" + header + b": x", 1)
    assert changed != signed
    assert not verified(changed)


@pytest.mark.parametrize("header", [b"From", b"To", b"Subject", b"Date", b"Reply-To"])
def test_a_second_header_that_was_added_is_noticed(header: bytes) -> None:
    signed = written("ed25519")
    assert verified(b"X-Added: x\r\n" + signed)
    assert not verified(header + b": x@evil.example\r\n" + signed)


def test_a_body_that_was_changed_is_noticed_and_blanks_are_not() -> None:
    signed = written("ed25519")
    head, end, body = signed.partition(b"\r\n\r\n")
    assert verified(head + end + body.replace(b" ", b"   ") + b"\r\n\r\n")
    assert not verified(head + end + body.replace(b"Hi", b"Ho"))


bodies = st.text("ab \t\r\n.=", max_size=60).map(
    lambda text: text.replace("\r", "").replace("\n", "\r\n").encode()
)
values = st.text("ab \t;:=,", max_size=60).map(str.encode)


@given(bodies, values, st.booleans())
def test_whatever_blanks_a_message_has_it_verifies(body: bytes, value: bytes, folded: bool) -> None:
    value = b"x" + value.replace(b"a", b"a\r\n " if folded else b"a") + b"x"
    message = b"From: a@sender.example\r\nSubject:%b\r\n\r\n%b" % (value, body)
    assert verified(signer("ed25519").sign(message) + message)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"key": Secret("hunter22")}, "private key in PEM"),
        ({"key": pem(ec.generate_private_key(ec.SECP256R1()))}, "expected an Ed25519 key"),
        ({"domain": "a b"}, "expected a name as in DNS"),
        ({"selector": "x;y"}, "expected a name as in DNS"),
    ],
)
def test_what_cannot_sign_is_refused_without_a_word_of_the_key(
    changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValidationError, match=told) as caught:
        DkimSettings.model_validate({**NAMES, "key": pem(key("ed25519")), **changes})
    assert "hunter22" not in str(caught.value)
    assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize(
    ("sender", "aligned"),
    [
        ("sender.example", True),
        ("mail.sender.example", True),
        ("other.example", False),
        ("thesender.example", False),
    ],
)
def test_a_signature_counts_for_the_senders_own_domain(sender: str, aligned: bool) -> None:
    assert DkimSettings(**NAMES, key=pem(key("ed25519"))).aligned(sender) is aligned
