"""What a deployment says about its relay; refused early, in one sentence, when it cannot work."""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from sendledger.plugin import LocalPath, PositiveDuration, Secret, SettingsModel
from sendledger_smtp.destination import read_destination
from sendledger_smtp.dkim import DkimSettings
from sendledger_smtp.header import write_mailbox
from sendledger_smtp.list_headers import FEEDBACK_ID, read_mailto, read_url

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})+")
_RELAY = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")

# RFC 5321 section 4.5.3.2.6: giving up earlier makes uncertainty out of mere slowness.
DATA_END_MIN = timedelta(minutes=10)

FALLBACKS_MAX = 8


class Tls(StrEnum):
    """How the connection is encrypted. None of them is opportunistic (RFC 8314)."""

    NONE = "none"
    STARTTLS = "starttls"
    IMPLICIT = "implicit"


class Grouping(StrEnum):
    """Whether commands are sent together where the relay offers it (RFC 2920)."""

    AUTO = "auto"
    OFF = "off"


PORTS = {Tls.NONE: 25, Tls.STARTTLS: 587, Tls.IMPLICIT: 465}


class Timeouts(SettingsModel):
    """How long each wait may last; the defaults are those of RFC 5321 section 4.5.3.2."""

    connect: PositiveDuration = timedelta(seconds=30)
    greeting: PositiveDuration = timedelta(minutes=5)
    command: PositiveDuration = timedelta(minutes=5)
    data_init: PositiveDuration = timedelta(minutes=2)
    data_block: PositiveDuration = timedelta(minutes=3)
    data_end: PositiveDuration = DATA_END_MIN

    @property
    def handoff(self) -> timedelta:
        """The longest legal submission: MAIL and RCPT, DATA, the message, the final reply."""
        return 2 * self.command + self.data_init + self.data_block + self.data_end


class Relay(SettingsModel):
    """A next hop: where it listens, how the connection is encrypted, and who we are to it."""

    host: str
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    tls: Tls = Tls.STARTTLS
    ca_file: LocalPath | None = None
    username: str | None = None
    password: Secret | None = None

    @field_validator("host")
    @classmethod
    def _check_host(cls, host: str) -> str:
        if not _is_address(host) and _RELAY.fullmatch(host) is None:
            raise ValueError("expected a host name or an IP address")
        return host

    @model_validator(mode="after")
    def _check_relay(self) -> Self:
        if self.tls is Tls.NONE and not self.loopback:
            raise ValueError("tls: none is for loopback hosts only; write starttls or implicit")
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password belong together; give both or neither")
        return self

    @property
    def loopback(self) -> bool:
        """Whether the relay is this very machine."""
        return self.host == "localhost" or (
            _is_address(self.host) and ip_address(self.host).is_loopback
        )

    @property
    def dial_port(self) -> int:
        """The port as given, or the usual one for the kind of TLS."""
        return self.port or PORTS[self.tls]


class SmtpSettings(Relay):
    """The relay of a channel, those to fall back on in their order, and the sender."""

    fallbacks: Annotated[tuple[Relay, ...], Field(max_length=FALLBACKS_MAX)] = ()
    ehlo_name: str | None = None

    sender: str
    sender_name: str = ""
    return_path_domain: str | None = None
    message_id_domain: str | None = None
    unsubscribe_url: str | None = None
    unsubscribe_mailto: str | None = None
    feedback_id: str | None = None
    dkim: DkimSettings | None = None

    sessions_max: Annotated[int, Field(ge=1, le=1000)] = 10
    messages_per_session_max: Annotated[int, Field(ge=1)] = 100
    idle_max: PositiveDuration = timedelta(seconds=60)
    revalidate_after: PositiveDuration = timedelta(seconds=5)
    pipelining: Grouping = Grouping.AUTO
    timeouts: Timeouts = Timeouts()

    @field_validator("sender")
    @classmethod
    def _check_sender(cls, sender: str) -> str:
        try:
            return read_destination(sender).address
        except ValueError:
            raise ValueError("expected a plain address such as reports@school.test") from None

    @field_validator("return_path_domain", "message_id_domain")
    @classmethod
    def _check_domain(cls, domain: str | None) -> str | None:
        if domain is not None and _NAME.fullmatch(domain) is None:
            raise ValueError("expected a domain name such as bounces.school.test")
        return domain and domain.lower()

    @field_validator("unsubscribe_url")
    @classmethod
    def _check_unsubscribe_url(cls, url: str | None) -> str | None:
        return None if url is None else read_url(url)

    @field_validator("unsubscribe_mailto")
    @classmethod
    def _check_unsubscribe_mailto(cls, address: str | None) -> str | None:
        return None if address is None else read_mailto(address)

    @field_validator("feedback_id")
    @classmethod
    def _check_feedback_id(cls, text: str | None) -> str | None:
        if text is not None and FEEDBACK_ID.fullmatch(text) is None:
            raise ValueError("expected 5 to 15 letters, digits, dots, - and _")
        return text

    @field_validator("ehlo_name")
    @classmethod
    def _check_ehlo_name(cls, name: str | None) -> str | None:
        # RFC 5321 section 4.1.4: servers judge us by it; a container's name is refused by many.
        if name is not None and _NAME.fullmatch(name) is None and not _is_literal(name):
            raise ValueError("expected a full host name, or an address literal such as [192.0.2.1]")
        return name

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        places = [(relay.host.lower(), relay.dial_port) for relay in self.relays]
        if len(set(places)) < len(places):
            raise ValueError("fallbacks: a relay is named twice; name each host and port once")
        near = all(relay.loopback for relay in self.relays)
        if self.timeouts.data_end < DATA_END_MIN and not near:
            raise ValueError("timeouts.data_end: expected 10m or more (RFC 5321 section 4.5.3.2.6)")
        if self.unsubscribe_mailto is not None and self.unsubscribe_url is None:
            raise ValueError(
                "unsubscribe_mailto: goes with unsubscribe_url (RFC 8058); give it too"
            )
        if self.dkim is not None and not self.dkim.aligned(self.sender_domain):
            raise ValueError("dkim.domain: expected the sender's domain, or one above or below it")
        write_mailbox("From", self.sender_name, self.sender)
        return self

    @property
    def relays(self) -> tuple[Relay, ...]:
        """All relays, the preferred one first."""
        return (self, *self.fallbacks)

    @property
    def sender_domain(self) -> str:
        """The domain of the From address."""
        return self.sender.rpartition("@")[2]

    @property
    def greeting_name(self) -> str:
        """What EHLO says we are."""
        return self.ehlo_name or self.sender_domain

    @property
    def bounce_domain(self) -> str:
        """The domain of the return path."""
        return self.return_path_domain or self.sender_domain

    @property
    def id_domain(self) -> str:
        """The right side of Message-ID."""
        return self.message_id_domain or self.sender_domain


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _is_literal(text: str) -> bool:
    inner = text[1:-1].removeprefix("IPv6:")
    return text.startswith("[") and text.endswith("]") and _is_address(inner)
