"""The form of a request to create a message: read, and refused with Twilio's code where it is not in order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit

from sendledger_sandbox.twilio.message import Request
from sendledger_sandbox.twilio.numbers import TWILIOS_OWN_SENDERS
from sendledger_sandbox.twilio.provider import Provider

BODY_MAX = 1600
CALLBACK_URL_MAX = 4000

_NUMBER = re.compile(r"\+1[2-9]\d{9}|\+[2-9]\d{6,14}")
_SENDER = re.compile(rf"{_NUMBER.pattern}|\d{{3,8}}|[A-Za-z0-9 ]{{1,11}}")


class FormRefused(Exception):  # noqa: N818 - a refusal is the word for it
    """The form is not in order; *code* is Twilio's."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def read_form(form: Mapping[str, str], provider: Provider) -> Request:
    """Return what a form asks for. Raises :class:`FormRefused`."""
    to, sender, service = (form.get(name, "") for name in ("To", "From", "MessagingServiceSid"))
    body, url = form.get("Body", ""), form.get("StatusCallback", "")
    checks = (
        (to != "", 21604),
        (sender != "" or service != "", 21603),
        (body != "", 21602),
        (_NUMBER.fullmatch(to) is not None, 21211),
        (sender not in TWILIOS_OWN_SENDERS, TWILIOS_OWN_SENDERS.get(sender, 0)),
        (sender == "" or _SENDER.fullmatch(sender) is not None, 21212),
        (sender == "" or provider.senders is None or sender in provider.senders, 21606),
        (len(body) <= BODY_MAX, 21617),
        (url == "" or _may_be_called(url), 21609),
        (to not in provider.opted_out, 21610),
    )
    for in_order, code in checks:
        if not in_order:
            raise FormRefused(code)
    return Request(
        to=to,
        sender=sender or None,
        service_sid=service or None,
        body=body,
        callback_url=url or None,
        send_at=_send_at(form),
    )


def _may_be_called(url: str) -> bool:
    """Whether Twilio would call back at *url*: 4,000 characters at most, no underscore in the host."""
    try:
        found = urlsplit(url)
        host, port = found.hostname or "", found.port
    except ValueError:
        return False
    plain = url.isascii() and len(url) <= CALLBACK_URL_MAX and port != 0
    return plain and found.scheme in {"http", "https"} and host != "" and "_" not in host


def _send_at(form: Mapping[str, str]) -> datetime | None:
    """Return when a message is to be sent, if a messaging service is to keep it until then."""
    if form.get("ScheduleType") != "fixed":
        return None
    try:
        at = datetime.fromisoformat(form.get("SendAt", ""))
    except ValueError:
        raise FormRefused(30400) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
