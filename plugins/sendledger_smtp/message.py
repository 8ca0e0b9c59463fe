"""Write messages: everything that all recipients share is compiled once, the rest is spliced in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from hashlib import sha256

from sendledger.plugin import Addressee, Content, ContentFault, Template
from sendledger_smtp.body import Body, write_body
from sendledger_smtp.destination import read_destination
from sendledger_smtp.header import CONTROLS, write_mailbox, write_text

BODIES = {"text": "plain", "html": "html"}
"""Parts and their text subtypes, from plain to rich: the last one a reader can show wins (RFC 2046)."""

SETTINGS = frozenset({"from_name", "reply_to"})
"""What the content may say about its letterhead. Never the From address: it is the sender's identity."""

INJECTION = "content.header-injection"
NOT_UNICODE = "content.not-unicode"
MISSING = "content.variable-missing"

_ATOM = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Letterhead:
    """What the channel's settings put on every message."""

    sender: str
    sender_name: str
    message_id_domain: str


class MessageWriter:
    """A compiled content revision under one letterhead."""

    def __init__(
        self,
        content: Content,
        head: bytes,
        message_id_domain: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._subject = content.parts["subject"]
        self._bodies = [(part, content.parts[part]) for part in BODIES if part in content.parts]
        self._head = head
        self._message_id_domain = message_id_domain.encode("ascii")
        # "=_" can stand in no quoted-printable text (RFC 2045 section 6.7), and a body that spells it
        # in clear is written in quoted-printable.
        self._boundary = b"=_" + sha256(content.revision.encode()).hexdigest()[:32].encode()
        self._clock = clock
        self._dated: tuple[datetime, bytes] | None = None

    def write(self, addressee: Addressee) -> bytes:
        """Return headers and body with CRLF line ends and no line over 998 octets. Raises ``ContentFault``.

        Dots are not doubled: that belongs to the wire. Only Date differs between two calls.
        """
        subject = _render("subject", self._subject, addressee.variables)
        bodies = [
            write_body(BODIES[part], _octets(part, _render(part, template, addressee.variables)))
            for part, template in self._bodies
        ]
        return b"".join((*self._headers(addressee, subject), *self._join(bodies)))

    def _headers(self, addressee: Addressee, subject: str) -> Iterator[bytes]:
        yield self._date()
        yield self._head
        yield b"To: %b\r\n" % _destination(addressee.destination)
        yield b"Subject: %b\r\n" % _subject(subject)
        yield b"Message-ID: <%b@%b>\r\n" % (_atom(addressee.intent_key), self._message_id_domain)
        yield b"Sendledger-Token: %b\r\n" % _atom(addressee.token)

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
    if unknown := sorted(content.settings.keys() - SETTINGS):
        raise ContentFault(
            "content.setting-unknown",
            f"found {unknown[0]}; email knows {', '.join(sorted(SETTINGS))}",
        )
    _try_subject(content.parts["subject"])
    head = _static_headers(content.settings, letterhead)
    return MessageWriter(content, head, letterhead.message_id_domain, clock)


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


def _static_headers(settings: Mapping[str, str], letterhead: Letterhead) -> bytes:
    name = settings.get("from_name", letterhead.sender_name)
    head = _mailbox("From", name, letterhead.sender)
    if "reply_to" in settings:
        try:
            address = read_destination(settings["reply_to"]).address
        except ValueError:
            raise ContentFault("content.reply-to", "reply_to is no plain address") from None
        head += _mailbox("Reply-To", "", address)
    # RFC 3834 section 5: so that vacation responders keep quiet.
    return head + b"Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n"


def _mailbox(header: str, name: str, address: str) -> bytes:
    try:
        return write_mailbox(header, name, address)
    except ValueError as error:
        raise ContentFault(INJECTION, f"{header}: {error}") from None


def _render(part: str, template: Template, variables: Mapping[str, object]) -> str:
    try:
        return template.render(variables)
    except KeyError as error:
        raise ContentFault(MISSING, f"{part} needs {error.args[0]!r}; supply it") from None


def _subject(text: str) -> bytes:
    # Refused, never stripped: what was cut away would be sent in nobody's name.
    try:
        return write_text(text)
    except UnicodeEncodeError:
        raise ContentFault(NOT_UNICODE, "the subject holds half a character pair") from None
    except ValueError as error:
        raise ContentFault(INJECTION, f"the subject holds {error}; take it out") from None


def _destination(address: str) -> bytes:
    if CONTROLS.search(address):
        raise ContentFault(INJECTION, "the destination holds a line break or control character")
    return address.encode()


def _octets(part: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ContentFault(NOT_UNICODE, f"{part} holds half a character pair") from None


def _atom(text: str) -> bytes:
    if _ATOM.fullmatch(text) is None:
        raise ValueError("an intent key and a token hold letters, digits, dots, - and _ only")
    return text.encode("ascii")
