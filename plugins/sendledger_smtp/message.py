"""Write messages: everything that all recipients share is compiled once, the rest is spliced in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from email.utils import format_datetime
from hashlib import sha256

from sendledger.plugin import Addressee, Content, ContentFault, Template
from sendledger_smtp.body import Body, SplicedBody
from sendledger_smtp.enclosure import enclose
from sendledger_smtp.header import CONTROLS, write_text
from sendledger_smtp.letterhead import INJECTION, Letterhead, read_settings, static_headers

BODIES = {"text": "plain", "html": "html"}
"""Parts and their text subtypes, from plain to rich: the last one a reader can show wins (RFC 2046)."""

SUBJECT_MAX_OCTETS = 998
"""What a line holds (RFC 5322 section 2.1.1). Longer ones could be folded, and are never meant."""

TOO_LONG = "content.header-too-long"
NOT_UNICODE = "content.not-unicode"
MISSING = "content.variable-missing"

_ATOM = re.compile(r"[A-Za-z0-9._-]{1,200}")


class MessageWriter:
    """A compiled content revision under one letterhead."""

    plain_text = True

    def __init__(
        self,
        content: Content,
        head: bytes,
        letterhead: Letterhead,
        clock: Callable[[], datetime],
    ) -> None:
        self._subject = content.parts["subject"]
        self._bodies = [
            (part, content.parts[part], SplicedBody(subtype, content.parts[part].static))
            for part, subtype in BODIES.items()
            if part in content.parts
        ]
        self._head = head
        self._unsubscribe = letterhead.unsubscribe
        self._signer = letterhead.signer
        self._message_id_domain = letterhead.message_id_domain.encode("ascii")
        # "=_" can stand in no quoted-printable text (RFC 2045 section 6.7), and a body that spells it
        # in clear is written in quoted-printable.
        self._boundary = _boundary(content.revision)
        self._outer_boundary = _boundary(f"{content.revision}/mixed")
        self._clock = clock
        self._dated: tuple[datetime, bytes] | None = None

    def write(self, addressee: Addressee) -> bytes:
        """Return headers and body with CRLF line ends and no line over 998 octets. Raises ``ContentFault``.

        Dots are not doubled: that belongs to the wire. Only Date and what signs it differ between two calls.
        """
        variables = addressee.variables
        subject = _render("subject", self._subject, variables)
        bodies = [_body(part, template, body, variables) for part, template, body in self._bodies]
        read = self._join(bodies)
        if addressee.attachments:
            read = enclose(read, addressee.attachments, self._outer_boundary)
        message = b"".join((*self._headers(addressee, subject), *read))
        return message if self._signer is None else self._signer.sign(message) + message

    def _headers(self, addressee: Addressee, subject: str) -> Iterator[bytes]:
        token = _atom(addressee.token)
        yield self._date()
        yield self._head
        yield b"To: %b\r\n" % _destination(addressee.destination)
        yield b"Subject: %b\r\n" % _subject(subject)
        yield b"Message-ID: <%b@%b>\r\n" % (_atom(addressee.intent_key), self._message_id_domain)
        if self._unsubscribe is not None:
            yield self._unsubscribe.headers(token)
        yield b"Sendledger-Token: %b\r\n" % token

    def _date(self) -> bytes:
        """Return the header for now. A second has many messages, and one spelling."""
        now = self._clock().replace(microsecond=0)
        if self._dated is None or self._dated[0] != now:
            self._dated = (now, b"Date: %b\r\n" % format_datetime(now).encode("ascii"))
        return self._dated[1]

    def _join(self, bodies: list[Body]) -> Iterator[bytes]:
        if len(bodies) == 1:
            yield bodies[0].headers
            yield bodies[0].octets
            return
        yield b'Content-Type: multipart/alternative;\r\n boundary="%b"\r\n\r\n' % self._boundary
        for body in bodies:
            yield b"--%b\r\n" % self._boundary
            yield body.headers
            yield body.octets
        yield b"--%b--\r\n" % self._boundary


def compile_content(
    content: Content, letterhead: Letterhead, clock: Callable[[], datetime]
) -> MessageWriter:
    """Return the writer of *content*. Raises ``ContentFault`` when no message could ever be made of it."""
    if "subject" not in content.parts:
        raise ContentFault("content.part-missing", "there is no subject; add one")
    if not BODIES.keys() & content.parts.keys():
        raise ContentFault(
            "content.part-missing", "there is neither text nor html; add at least one"
        )
    settings = read_settings(content.settings, letterhead)
    _try_subject(content.parts["subject"])
    head = static_headers(settings, letterhead)
    if not settings.unsubscribe:
        letterhead = replace(letterhead, unsubscribe=None)
    if content.rehearsal:
        letterhead = replace(letterhead, signer=None)
    return MessageWriter(content, head, letterhead, clock)


class _Alike(Mapping[str, str]):
    """Holds one value under every name."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __getitem__(self, name: str) -> str:
        return self._value

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __contains__(self, name: object) -> bool:
        return True


def _try_subject(template: Template) -> None:
    """Refuse a subject that can be written with no values at all: what it says itself is at fault."""
    without, given = (_subject_fault(template, _Alike(value)) for value in ("", "x"))
    if without and given:
        raise given


def _subject_fault(template: Template, values: Mapping[str, object]) -> ContentFault | None:
    try:
        _subject(template.render(values))
    except ContentFault as fault:
        return fault
    except KeyError:
        return None  # it looks inside of values: nothing is known without them
    return None


def _render(part: str, template: Template, variables: Mapping[str, object]) -> str:
    try:
        return template.render(variables)
    except KeyError as error:
        raise _missing(part, error) from None


def _body(
    part: str, template: Template, body: SplicedBody, variables: Mapping[str, object]
) -> Body:
    try:
        return body.write(template.splice(variables))
    except KeyError as error:
        raise _missing(part, error) from None
    except UnicodeEncodeError:
        raise ContentFault(NOT_UNICODE, f"{part} holds half a character pair") from None


def _missing(part: str, error: KeyError) -> ContentFault:
    return ContentFault(MISSING, f"{part} needs {error.args[0]!r}; supply it")


def _subject(text: str) -> bytes:
    # Refused, never stripped: what was cut away would be sent in nobody's name.
    try:
        value = write_text(text)
    except UnicodeEncodeError:
        raise ContentFault(NOT_UNICODE, "the subject holds half a character pair") from None
    except ValueError as error:
        raise ContentFault(INJECTION, f"the subject holds {error}; take it out") from None
    if len(value) > SUBJECT_MAX_OCTETS and len(text.encode()) > SUBJECT_MAX_OCTETS:
        reason = f"the subject is longer than {SUBJECT_MAX_OCTETS} octets; shorten it"
        raise ContentFault(TOO_LONG, reason)
    return value


def _destination(address: str) -> bytes:
    if CONTROLS.search(address):
        raise ContentFault(INJECTION, "the destination holds a line break or control character")
    return address.encode()


def _boundary(text: str) -> bytes:
    return b"=_" + sha256(text.encode()).hexdigest()[:32].encode()


def _atom(text: str) -> bytes:
    if _ATOM.fullmatch(text) is None:
        raise ValueError("an intent key and a token hold letters, digits, dots, - and _ only")
    return text.encode("ascii")
